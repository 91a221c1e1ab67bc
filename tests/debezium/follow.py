"""What a version of Debezium changes: bytes by case and cause, options, and tests of its suite."""

import pathlib
import re
from collections import defaultdict

import yaml

import connector
import record
import suite
from case_file import flow
from change_fuzz import fuzz_tables
from columns import columns
from fuzz import fuzz
from systems import Debezium

HERE = pathlib.Path(__file__).parent
CAUSES = HERE / "causes.yaml"
OPTIONS = HERE / "connector_options.tsv"
SUITE = record.CASES / "debezium-suite.txt"
KEYS = HERE.parent.parent / "src/config/known/keys.tsv"
VERSION = re.compile(r"\b\d+\.\d+\.\d+\.(?:Final|CR\d+|Beta\d+|Alpha\d+)\b")
PARTS = ("options", "suite", "columns", "cases", "random")
UNEXPLAINED = "UNEXPLAINED"


def follow(trials, plugin, parts, seeds, sources, accept):
    """Prints each part's differences; returns how many nobody has explained."""
    print(f"Debezium {plugin.name}, compared with {connector.reference_version()}", flush=True)
    for name, what in connector.OLDER.get(plugin.version, {}).items() if plugin.libraries != plugin.version else ():
        print(f"  as in {plugin.libraries}: {name} ({what})")
    steps = {
        "options": lambda: options(Debezium(trials.addresses.connect, ""), accept),
        "suite": lambda: new_tests(plugin.version, sources, accept),
        "columns": lambda: columns(trials, not accept, False),
        "cases": lambda: cases(trials, accept),
        "random": lambda: fuzz(trials, seeds, None, False, False) + fuzz_tables(trials, seeds, 20, None, None),
    }
    found = {part: print(f"== {part}", flush=True) or steps[part]() for part in PARTS if part in parts}
    print("unexplained: " + ", ".join(f"{count} {part}" for part, count in found.items()))
    return sum(found.values())


def options(worker, accept):
    """Compares the options that the connector's jar declares with those that are stored."""
    head, *lines = OPTIONS.read_text().splitlines() if OPTIONS.exists() else ["name\ttype\tdefault"]
    old = dict(line.split("\t", 1) for line in lines)
    new = {name: f"{kind}\t{default}" for name, kind, default in worker.options()}
    known = {line.split("\t")[0] for line in KEYS.read_text().splitlines()[1:]}
    for name in sorted({*old, *new}):
        what = "removed" if name not in new else "new" if name not in old else "changed" if old[name] != new[name] else ""
        if what:
            told = " -> ".join(text.replace("\t", " ") for text in dict.fromkeys((old.get(name), new.get(name))) if text)
            print(f"{what:8}{name}  {told}" + ("" if name in known else "  (not in src/config/known/keys.tsv)"))
    if accept:
        OPTIONS.write_text("\n".join([head, *(f"{name}\t{new[name]}" for name in sorted(new))]) + "\n")
    changed = sum(old.get(name) != new.get(name) for name in {*old, *new})
    print(f"{len(new)} options, {changed} differ")
    return changed


def new_tests(version, sources, accept):
    """Compares the names of the suite's tests with those that are stored, from sources or from the tests jars of the version."""
    if sources:
        found = suite.of_sources(sources)
    else:
        try:
            found = suite.of_jars(suite.jars(version))
        except connector.NotServed as error:
            print(f"no tests jar of {version} is served; give --suite FOLDER with Debezium's sources\n  {error}")
            return 0
    stored = SUITE.read_text().splitlines()[1:]
    new, gone = ([name for name in names if name not in others] for names, others in ((found, {*stored}), (stored, {*found})))
    print(*(f"new     {name}" for name in new), *(f"gone    {name}" for name in gone), f"{len(found)} tests", sep="\n")
    if accept:
        SUITE.write_text(f"# The tests of Debezium's suite by name, of {version if not sources else 'the sources of ' + version}: python3 tests/debezium follow\n"
                         + "\n".join(found) + "\n")
    return len(new)


def cases(trials, accept):
    """Records every case again; returns how many differ by what causes.yaml does not name."""
    causes = yaml.safe_load(CAUSES.read_text()) or []
    by_cause, version = defaultdict(set), trials.version()
    for path, case in record.recorded(version):
        run = trials.record(case)
        lines = record.compare(case, run)
        pairs = list(zip(case.records, run.records)) if len(case.records) == len(run.records) and not run.failure else []
        found = {cause_of(causes, *pair) for pair in pairs if pair[0] != pair[1]} or {f"{UNEXPLAINED}: {lines[0]}"} if lines else set()
        for cause in found:
            by_cause[cause].add(path.stem)
        if found and accept:
            record.rewrite(path, case, trials.versions(), run)
        print(f"{'differs' if found else 'same   '} {path.stem}  {'; '.join(sorted(found))}", flush=True)
    for cause, names in sorted(by_cause.items()):
        print(f"{len(names):4} cases: {cause}: {', '.join(sorted(names))}")
    return len({name for cause, names in by_cause.items() if cause.startswith(UNEXPLAINED) for name in names})


def cause_of(causes, old, new):
    """Returns the names of all causes that together make two records equal, or the places where they still differ."""
    old, new = (VERSION.sub("VERSION", flow(one)) for one in (old, new))
    names = [] if old == new else [cause["name"] for cause in causes if re.search(cause["mask"], old) or re.search(cause["mask"], new)]
    for cause in causes:
        old, new = (re.sub(cause["mask"], "", one) for one in (old, new))
    return " and ".join(names) or "the version's name" if old == new else f"{UNEXPLAINED}: {', '.join(places(old, new)) or 'the text'}"


def places(old, new):
    """Returns the members whose values differ, as the word before each."""
    pattern = re.compile(r'"(\w+)":("(?:[^"\\]|\\.)*"|\[[^\]]*\]|[^,}\]]*)')
    return sorted({name for (name, one), (_, other) in zip(pattern.findall(old), pattern.findall(new)) if one != other})
