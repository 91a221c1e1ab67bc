"""Change events of Debezium and outboxd, held against each other.

Both read the same transactions, so that LSNs, transactions and commit times are the same. What differs is the moment at
which an event was made, and in a snapshot the position of each one's slot.
"""

import difflib
import itertools
import re
import struct
import time
from collections import defaultdict
from datetime import date

from comparison import Comparison, applies

TOLERANCE_MS = 60_000
TOKEN = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?|\d+")
MOMENTS = {13: 1, 16: 10**3, 19: 10**6}
"""Digits of a number of this century, and how many of its units are a millisecond."""
POSITION = re.compile(r"(lsn|txId|sequence)\W*(schema\W+type\W+\w+\W+optional\W+\w+\W+payload\W+)?(\[(null|\W*\d*\W*),\W*)?$", re.I)
SNAPSHOT = re.compile(r"snapshot\W{1,3}(true|first|last|incremental)|(\b|_)op\W{1,3}r\b", re.M)
TOPIC_SUBJECT = re.compile(r"[A-Za-z0-9._-]+-(key|value)")
AROUND = 160


class ChangeJudge:
    def __init__(self, entries, started_ms, has_snapshot, registers_once=False):
        self.registers_once = registers_once
        """As Apicurio's client does a text, under the subject that has it first."""
        self.has_snapshot, self.slots = has_snapshot, {}
        """Where each one's slot stood in the snapshot, once that is known."""
        self.entries, self.span = entries, (started_ms - TOLERANCE_MS, int(time.time() * 1000) + TOLERANCE_MS)
        self.days = tuple(str(date.fromtimestamp(moment / 1000 + days * 86_400)) for moment in self.span for days in (-1, 0, 1))

    def compare(self, debezium, outboxd):
        result = Comparison()
        if bool(outboxd.failure) != bool(debezium.failure):
            text = f"Debezium: {debezium.failure or 'runs on'}\noutboxd: {outboxd.failure or 'runs on'}"
            result.differences.append(("", text))
        theirs, ours = by_partition(debezium.records), by_partition(outboxd.records)
        for place in sorted({*theirs, *ours}):
            self._partition(result, place, theirs[place], ours[place])
        elsewhere = {text for texts in debezium.subjects.values() for text in texts} if self.registers_once else set()
        sent = {record["topic"] for record in debezium.records}
        for subject in sorted({*debezium.subjects, *outboxd.subjects}):
            theirs, ours = (run.subjects.get(subject, []) for run in (debezium, outboxd))
            if not ours and subject.rpartition("-")[0] not in sent:
                # Debezium registers a key whose value then fails.
                continue
            self._subject(result, subject, theirs, [text for text in ours if text in theirs or text not in elsewhere])
        return result

    def _subject(self, result, subject, theirs, ours):
        """The same schemas, in the same order. Debezium registers also those of a topic that Kafka then refuses."""
        if not TOPIC_SUBJECT.fullmatch(subject):
            return
        for old, new in itertools.zip_longest(theirs, ours, fillvalue=""):
            if old != new:
                result.differences.append((subject, f"schema of {subject}\n{apart(old, new, old, new)}"))

    def _partition(self, result, place, theirs, ours):
        theirs, ours = ([text_of(record) for record in records] for records in (theirs, ours))
        if place[1] < 0:
            theirs, ours = (sorted(texts, key=self._masked) for texts in (theirs, ours))
        matcher = difflib.SequenceMatcher(None, [*map(self._masked, theirs)], [*map(self._masked, ours)], autojunk=False)
        for _, low, high, first, last in matcher.get_opcodes():
            pairs = min(high - low, last - first)
            for old, new in zip(theirs[low:low + pairs], ours[first:first + pairs]):
                self._pair(result, place, old, new)
            result.differences += [(place[0], f"only Debezium, {place}: {shown(text)}") for text in theirs[low + pairs:high]]
            result.differences += [(place[0], f"only outboxd, {place}: {shown(text)}") for text in ours[first + pairs:last]]

    def _pair(self, result, place, theirs, ours):
        if self._same(theirs, ours):
            result.equal += 1
            return
        for entry in self.entries:
            if self._applies(entry, theirs, ours):
                result.deliberate[entry["name"]] += 1
                return
        result.differences.append((place[0], f"{place}\n{apart(self._masked(theirs), self._masked(ours), theirs, ours)}"))

    def _applies(self, entry, theirs, ours):
        """What an entry masks may differ, and nothing else."""
        if "float" in entry:
            return self._same(*(re.sub(entry["float"], single, text) for text in (theirs, ours)))
        if "mask" in entry:
            return self._same(*(re.sub(entry["mask"], "", text) for text in (theirs, ours)))
        return applies(entry, self._masked(theirs), self._masked(ours))

    def _same(self, theirs, ours):
        if theirs == ours:
            return True
        if TOKEN.sub("", theirs) != TOKEN.sub("", ours):
            return False
        snapshot = bool(SNAPSHOT.search(theirs))
        return all(self._same_token(theirs, old, new, snapshot) for old, new in zip(TOKEN.finditer(theirs), TOKEN.finditer(ours)))

    def _same_token(self, text, old, new, snapshot):
        if old[0] == new[0]:
            return True
        if self._is_now(old[0]) and self._is_now(new[0]):
            return True
        found = POSITION.search(text[max(0, old.start() - 90):old.start()])
        return bool(found) and (snapshot or self._is_of_slots(found[1], (old[0], new[0])))

    def _is_of_slots(self, what, positions):
        """Of rows that no longer say that they are of a snapshot: all have the same position, and the same transaction."""
        return self.has_snapshot and self.slots.setdefault(what, positions) == positions

    def _masked(self, text):
        for entry in self.entries:
            text = re.sub(entry["mask"], "", text) if "mask" in entry else text
        return TOKEN.sub(lambda found: "NOW" if self._is_now(found[0]) else found[0], text)

    def _is_now(self, token):
        if not token.isdigit():
            return token.startswith(self.days)
        unit = MOMENTS.get(len(token))
        return bool(unit) and self.span[0] <= int(token) // unit <= self.span[1]


def single(found):
    """The number of 32 bits that a text stands for."""
    return repr(struct.unpack("f", struct.pack("f", float(found[0])))[0])


def by_partition(records):
    """In order; records without a key are put into any partition."""
    places = defaultdict(list)
    for record in records:
        places[record["topic"], -1 if record["key"] is None else record["partition"]].append(record)
    return places


def text_of(record):
    headers = [header if isinstance(header, str) else f"{header[0]}={header[1]}" for header in record["headers"]]
    now = "now" if record["timestamp"] == "now" else record["timestamp"]
    return "\n".join(map(str, (record["key"], record["value"], *headers, now)))


def shown(text):
    return text if len(text) < 3 * AROUND else f"{text[:2 * AROUND]} … {text[-AROUND:]}"


def apart(theirs, ours, whole, other):
    """Where two texts begin and end to differ."""
    start = next((at for at, (old, new) in enumerate(zip(theirs, ours)) if old != new), min(len(theirs), len(ours)))
    if theirs == ours:
        theirs, ours = whole, other
        start = next((at for at, (old, new) in enumerate(zip(theirs, ours)) if old != new), 0)
    low = max(0, start - AROUND)
    return f"Debezium …{theirs[low:start + 2 * AROUND]}…\noutboxd  …{ours[low:start + 2 * AROUND]}…"
