"""Makes a case with a difference smaller while it still has one."""

import dataclasses
import re

from generator import generated, tag_of

TRIALS = 24
PLACEMENT = "transforms.outbox.table.fields.additional.placement"


def minimised(trials, judge, attempt):
    """The smallest case found with its differences, or None when a row alone is not enough."""
    number = row_number(attempt.comparison.differences)
    case, workload = generated(attempt.seed)
    if number not in workload.rows:
        return None
    tried = 0

    def differences(candidate):
        nonlocal tried
        tried += 1
        comparison = judge.compare(*trials.compare(candidate, tag_of(attempt.seed)))
        return comparison.differences

    smallest = dataclasses.replace(case, before="", tx=[workload.single(number)])
    found = differences(smallest)
    if not found:
        return None
    candidates = smaller(smallest)
    while tried < TRIALS and (candidate := next(candidates, None)):
        if again := differences(candidate):
            smallest, found, candidates = candidate, again, smaller(candidate)
    return smallest, found


def smaller(case):
    """The case without one of its options, or without one of the columns that it places."""
    for key, value in case.config.items():
        if key == PLACEMENT and "," in value:
            items = value.split(",")
            for item in items:
                rest = ",".join(other for other in items if other != item)
                yield dataclasses.replace(case, config=case.config | {key: rest})
        if key != "errors.tolerance":
            yield dataclasses.replace(case, config={other: text for other, text in case.config.items() if other != key})


def row_number(differences):
    """Of the first difference that names a row: its id ends in the number."""
    ids = (re.search(r"(\d+)\D*$", key) for key, _ in differences if key)
    return next((int(found[1]) for found in ids if found), None)
