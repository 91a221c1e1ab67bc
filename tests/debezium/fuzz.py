"""Random cases through Debezium and outboxd, side by side."""

import traceback
from collections import Counter
from dataclasses import dataclass

from case_file import Case
from column_types import SETUP
from comparison import Comparison, Judge
from generator import generated, tag_of
from minimise import minimised
from trial import Run, side_by_side

WORKERS = 4
SHOWN = 3


@dataclass
class Attempt:
    seed: int
    case: Case
    debezium: Run | None = None
    comparison: Comparison | None = None
    broken: str = ""
    """Why there is no comparison."""


def fuzz(trials, seeds, known, verbose, minimise):
    """Prints what differs; how many seeds do."""
    totals, differing, judge = Counter(), 0, Judge(known)
    for attempt in attempts(trials, judge, seeds):
        found = attempt.comparison
        if found:
            totals.update({"seeds": 1, "equal records": found.equal, "beyond": len(found.beyond)}, **found.deliberate)
        if not found or found.differences:
            differing += 1
            print(told(attempt), flush=True)
            if minimise and found and (smallest := minimised(trials, judge, attempt)):
                print(told_minimised(*smallest), flush=True)
        elif verbose and found.beyond:
            print(f"{headline(attempt)}\n-- beyond Debezium ({len(found.beyond)}), the first:\n{found.beyond[0]}", flush=True)
    print(f"{differing} seeds differ; " + ", ".join(f"{count} {what}" for what, count in totals.items()))
    return differing


def attempts(trials, judge, seeds):
    """As each is done."""

    def attempt(seed):
        case, _ = generated(seed)
        try:
            debezium, outboxd = trials.compare(case, tag_of(seed))
            return Attempt(seed, case, debezium, judge.compare(debezium, outboxd))
        except Exception:  # one broken seed must not end the others
            return Attempt(seed, case, broken=traceback.format_exc())

    for _, done in side_by_side(attempt, seeds, WORKERS):
        yield done


def told(attempt):
    if attempt.broken:
        return f"{headline(attempt)}\n{attempt.broken}"
    found = attempt.comparison
    lines = [headline(attempt), f"{len(found.differences)} differences, {found.equal} equal"]
    lines += [f"-- row {key}\n{text}" for key, text in found.differences[:SHOWN]]
    return "\n".join(lines)


def told_minimised(case, differences):
    options = (f"  {key}: {value}" for key, value in case.config.items())
    return "\n".join(["-- minimised", *case.tx, *options, differences[0][1]])


def headline(attempt):
    options = (f"  {key}: {value}" for key, value in attempt.case.config.items())
    return "\n".join([f"== seed {attempt.seed}", attempt.case.schema.removeprefix(SETUP).strip(), *options])
