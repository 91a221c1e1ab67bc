"""Records every case that says so anew."""

import pathlib
import re

import case_file

RECORDED = "recorded from Debezium"
"""What a new case says."""
VERSIONS = re.compile(RECORDED + r"( [^,]+(, Kafka Connect [^,]+)?(, PostgreSQL [^,]+)?)?")
VERSION_OPTION = "outboxd.debezium.version"
CASES = pathlib.Path(__file__).parent.parent / "cases"
FOLDERS = ("relay", "inventory", "generated", "tables")


def record(trials, names, check_only):
    """Rewrites the cases, or with `check_only` tells what would change; how many cases differ."""
    versions, differing = trials.versions(), 0
    for path, case in recorded(trials.version()):
        if names and path.stem not in names:
            continue
        run = trials.record(case)
        differences = compare(case, run)
        differing += bool(differences)
        print(f"{'differs' if differences else 'same   '} {path.stem}", *differences, sep="\n    ", flush=True)
        if not check_only:
            rewrite(path, case, versions, run)
    print(f"{differing} cases {'differ' if check_only else 'changed'}")
    return differing


def recorded(version):
    """Yields each recorded case with its file; one that asks for a version of Debezium is of that version alone."""
    for path in (path for folder in FOLDERS for path in sorted((CASES / folder).glob("*.yaml"))):
        case = case_file.read(path)
        if is_recorded(case) and case.config.get(VERSION_OPTION, version) == version:
            yield path, case


def rewrite(path, case, versions, run):
    source = versions + case.source[len(VERSIONS.match(case.source)[0]):]
    if case.records != run.records or case.source != source:
        path.write_text(case_file.with_records(path.read_text(), source, run.records))


def is_recorded(case):
    """Debezium Server's own sink cannot be recorded through Connect, nor what Debezium fails to do."""
    return case.source.startswith(RECORDED) and not case.properties


def compare(case, run):
    differences = []
    if bool(run.failure) != (case.fails is not None):
        differences.append(f"Debezium: {run.failure or 'runs on'}")
    if len(case.records) != len(run.records):
        differences.append(f"{len(case.records)} records in the file, {len(run.records)} came")
    pairs = zip(case.records, run.records)
    differences += [f"file {case_file.flow(old)}\n    came {case_file.flow(new)}" for old, new in pairs if old != new]
    return differences
