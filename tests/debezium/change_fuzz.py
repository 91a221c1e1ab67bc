"""Random tables through Debezium and outboxd, side by side."""

import pathlib
import re
import time
import traceback
from collections import Counter
from dataclasses import dataclass

import yaml

from change_comparison import ChangeJudge
from change_generator import Batch, generated, tag_of
from comparison import Comparison
from registered_options import APICURIO_AVRO
from trial import side_by_side

DELIBERATE = pathlib.Path(__file__).parent / "deliberate_changes.yaml"
WORKERS = 3
SHOWN = 6


@dataclass
class Attempt:
    batch: Batch
    comparison: Comparison | None = None
    broken: str = ""
    """Why there is no comparison."""
    notes: str = ""


def fuzz_tables(trials, seeds, count, known, form):
    """Prints what differs; how many batches do."""
    entries = [entry for path in (DELIBERATE, known) if path for entry in yaml.safe_load(pathlib.Path(path).read_text()) or []]
    totals, differing = Counter(), 0

    def attempt(seed):
        batch = generated(seed, count, form)
        started_ms = int(time.time() * 1000)
        try:
            debezium, outboxd = trials.compare(batch.case, tag_of(seed))
            notes = f"{len(debezium.records)} records; Debezium: {debezium.failure}; outboxd: {outboxd.failure} {outboxd.errors[-1500:]}"
            judge = ChangeJudge(entries, started_ms, batch.case.config.get("snapshot.mode") != "no_data", form == APICURIO_AVRO)
            return Attempt(batch, judge.compare(debezium, outboxd), notes=notes)
        except Exception:  # one broken seed must not end the others
            return Attempt(batch, broken=traceback.format_exc())

    for _, done in side_by_side(attempt, seeds, WORKERS):
        found = done.comparison
        totals.update({"batches": 1, "tables": len(done.batch.tables), "equal records": found.equal if found else 0, **(found.deliberate if found else {})})
        if not found or found.differences:
            differing += 1
            totals.update({"tables that differ": len({topic for topic, _ in found.differences}) if found else count})
            print(told(done), flush=True)
    print(f"{differing} batches differ; " + ", ".join(f"{number} {what}" for what, number in totals.items()))
    return differing


def told(attempt):
    case = attempt.batch.case
    lines = [f"== seed {attempt.batch.seed}", *(f"  {key}: {value}" for key, value in case.config.items() if value is not None)]
    if attempt.broken:
        return "\n".join([*lines, attempt.broken])
    found = attempt.comparison
    lines += [f"{len(found.differences)} differences, {found.equal} equal", attempt.notes]
    kinds = {}
    for topic, text in found.differences:
        kinds.setdefault((topic, text[:12]), text)
    for (topic, _), text in list(kinds.items())[:SHOWN]:
        tables = [table.definition() for table in attempt.batch.tables if named(topic, table)]
        lines += [f"-- {topic}", *tables[:1], text]
    return "\n".join(lines)


def named(topic, table):
    """Whether the topic ends in that table's number."""
    number = re.search(r"\d+$", topic)
    return bool(number) and re.search(r"\d+$", table.name)[0] == number[0]
