"""What Debezium and outboxd made of the same rows, held against each other."""

import pathlib
import re
from collections import defaultdict
from dataclasses import dataclass, field

import yaml

import case_file

DELIBERATE = pathlib.Path(__file__).parent / "deliberate.yaml"


@dataclass
class Comparison:
    equal: int = 0
    """Records that both wrote, with the same bytes in the same place."""
    differences: list = field(default_factory=list)
    """(id of the row or None, text)."""
    deliberate: dict = field(default_factory=lambda: defaultdict(int))
    """How often each entry of deliberate.yaml applied."""
    beyond: list = field(default_factory=list)
    """What outboxd did and Debezium failed to do."""


class Judge:
    def __init__(self, known=None):
        """`known` is a file like deliberate.yaml, with what has been found already."""
        files = [DELIBERATE, pathlib.Path(known)] if known else [DELIBERATE]
        self.entries = [entry for file in files for entry in yaml.safe_load(file.read_text())]

    def compare(self, debezium, outboxd):
        result = Comparison()
        theirs, ours = by_id(debezium.records), by_id(outboxd.records)
        if outboxd.failure:
            self._failure(result, debezium, outboxd)
        elif debezium.failure:
            result.beyond.append(f"Debezium failed: {debezium.failure}")
        for key, record in theirs.items():
            if key in ours:
                self._record(result, key, record, ours[key])
            elif not outboxd.failure:
                result.differences.append((key, f"only Debezium: {case_file.flow(record)}\noutboxd  {outboxd.errors[-600:]}"))
        extra = [record for key, record in ours.items() if key not in theirs]
        result.beyond += [f"only outboxd: {case_file.flow(record)}" for record in extra]
        if order(theirs, ours) != order(ours, theirs):
            result.differences.append((None, "the order inside a partition"))
        return result

    def _failure(self, result, debezium, outboxd):
        text = f"Debezium: {debezium.failure or 'runs on'}\noutboxd: {outboxd.failure}"
        if debezium.failure or not debezium.records:
            result.beyond.append(text)
            return
        entry = next((entry for entry in self.entries if "fails" in entry and re.search(entry["fails"], outboxd.failure)), None)
        if entry:
            result.deliberate[entry["name"]] += 1
        else:
            result.differences.append((None, text))

    def _record(self, result, key, theirs, ours):
        if theirs == ours:
            result.equal += 1
            return
        texts = [plain(theirs), plain(ours)]
        for entry in self.entries:
            if applies(entry, *texts):
                result.deliberate[entry["name"]] += 1
                return
        texts = [case_file.flow(theirs), case_file.flow(ours)]
        result.differences.append((key, f"Debezium {texts[0]}\noutboxd  {texts[1]}"))


def applies(entry, theirs, ours):
    if "mask" in entry:
        return re.sub(entry["mask"], "", theirs) == re.sub(entry["mask"], "", ours)
    if "debezium" in entry:
        return bool(re.search(entry["debezium"], theirs) and re.search(entry["outboxd"], ours))
    return "reordered" in entry and sorted(theirs) == sorted(ours)


def by_id(records):
    """Each row's record; a second one of the same row is told apart."""
    found = {}
    for record in records:
        key = row_id(record)
        while key in found:
            key += " again"
        found[key] = without_chosen_partition(record)
    return found


def plain(record):
    """Without a file's quotes."""
    headers = [header if isinstance(header, str) else "=".join(map(str, header)) for header in record["headers"]]
    parts = [record["topic"], record["partition"], record["key"], record["value"], *headers, record["timestamp"]]
    return "\n".join(map(str, parts))


def row_id(record):
    headers = [header for header in record["headers"] if isinstance(header, list) and header[0] == "id"]
    return str(headers[0][1]) if headers else ""


def without_chosen_partition(record):
    """A record without a key is put into any partition."""
    return record if record["key"] is not None else {**record, "partition": -1}


def order(records, others):
    """The rows that both have, in order, of each partition that is determined."""
    partitions = defaultdict(list)
    for key, record in records.items():
        if key in others and record["partition"] >= 0 and record["topic"] == others[key]["topic"]:
            partitions[record["topic"], record["partition"]].append(key)
    return partitions
