"""Random cases with what Debezium made of them, as files that outboxd's tests run."""

import pathlib

import case_file
from comparison import Judge
from fuzz import attempts

FOLDER = pathlib.Path(__file__).parent.parent / "cases" / "generated"


def corpus(trials, seeds, rows):
    """Writes the cases of the seeds that are fit, in their order, until there are so many rows; how many there are."""
    versions, fit = trials.versions(), {}
    for attempt in attempts(trials, Judge(), seeds):
        if is_fit(attempt):
            fit[attempt.seed] = attempt
    FOLDER.mkdir(exist_ok=True)
    for stale in FOLDER.glob("*.yaml"):
        stale.unlink()
    written = 0
    for seed, attempt in sorted(fit.items()):
        if written >= rows:
            break
        write(attempt, f"{versions}, seed {seed}")
        written += len(attempt.debezium.records)
    print(f"{written} records of {len(list(FOLDER.glob('*.yaml')))} cases")
    return written


def is_fit(attempt):
    """Debezium did not fail at any row, outboxd agrees, and each record's partition is determined."""
    found = attempt.comparison
    agreed = found and found.equal and not (found.differences or found.beyond or found.deliberate)
    return bool(agreed) and all(record["key"] is not None for record in attempt.debezium.records)


def write(attempt, source):
    case = attempt.case
    case.about = f"Random outbox, options and values: {', '.join(features(case)) or 'all defaults'}."
    case.source, case.records = source, attempt.debezium.records
    case.topics = sorted({record["topic"] for record in case.records})
    (FOLDER / f"seed-{attempt.seed:05}.yaml").write_text(case_file.written(case))


def features(case):
    """What stands out in the configuration."""
    converters = [f"{role} by {case.config[key].rpartition('.')[2]}" for role in ("key", "value", "header")
                  if (key := f"{role}.converter") in case.config]
    router = [key.rpartition("transforms.outbox.")[2] for key in case.config if "expand" in key or "tombstone" in key]
    return converters + router + [f"{key}={value}" for key, value in case.config.items() if key.endswith(".mode")]
