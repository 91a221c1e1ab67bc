"""What differs from one run to the next in change events, written as what it means.

Positions and transactions become their place among those of the case, times of the run become NOW: so a case says which
are equal, and in which order they are.
"""

import datetime
import re
import time

TOLERANCE_MS = 60_000
# Behind a semicolon it is a part of a CloudEvent's id, where nothing is quoted.
MEMBER = r'(?:"(?:__)?(?:source_)?|"iodebezium|;)'
POSITION = re.compile(MEMBER + r'lsn"?:"?(\d+)')
SEQUENCE = re.compile(MEMBER + r'sequence"?:"?(\[[^\]]*\])"')
XID = re.compile(MEMBER + r'txId"?:"?(\d+)')
TRANSACTION = re.compile(r'"(id|iodebeziumtxid)":"(\d+):(\d+)"')
TIME = re.compile(r'"(?:(?:[a-z_]*_)?ts_|iodebeziumts)(ms|us|ns)":"?(\d+)')
EVENT_TIME = re.compile(r'("specversion":"1.0","type":"[^"]*","time":")([^"]*)')
UNITS = {"ms": 1, "us": 10**3, "ns": 10**6}
DATABASE = re.compile(MEMBER + r'db":"([^"]*)"')
QUOTE = r'\"'
SEQUENCE_PARTS = re.compile(r'\[(null|\\"\d+\\"),\\"(\d+)\\"\]')
LAST = f"{QUOTE}LAST{QUOTE}"


def masked(records, started_ms):
    """The same records without what a run decides."""
    texts = [text for record in records for text in (record["key"], record["value"], *headers(record)) if isinstance(text, str)]
    positions, xids = set(), set()
    for text in texts:
        positions.update(int(found[1]) for found in POSITION.finditer(text))
        xids.update(int(found[1]) for found in XID.finditer(text))
        xids.update(int(found[2]) for found in TRANSACTION.finditer(text))
    lsn, tx = ranks(positions, "LSN"), ranks(xids, "TX")
    earliest = started_ms - TOLERANCE_MS
    latest = int(time.time() * 1000) + TOLERANCE_MS

    def moment(found):
        return "NOW" if earliest <= int(found) // unit <= latest else found

    def mask(text):
        nonlocal unit
        if not isinstance(text, str):
            return text
        text = inside(POSITION, text, 1, lsn)
        text = inside(SEQUENCE, text, 1, lambda numbers: sequence(numbers, lsn))
        text = inside(XID, text, 1, tx)
        text = TRANSACTION.sub(lambda found: f'"{found[1]}":"{tx(found[2])}:LSN"', text)
        text = inside(DATABASE, text, 1, lambda _: "DB")
        text = EVENT_TIME.sub(event_time, text)
        for name, unit in UNITS.items():
            text = inside(re.compile(TIME.pattern.replace("(ms|us|ns)", name)), text, 1, moment)
        return text

    def event_time(found):
        ms = datetime.datetime.fromisoformat(found[2]).timestamp() * 1000
        return found[1] + ("NOW" if earliest <= ms <= latest else found[2])

    unit = 1
    return [{**record, "key": mask(record["key"]), "value": mask(record["value"]),
             "headers": [[header[0], mask(header[1])] if isinstance(header, list) else header for header in record["headers"]]}
            for record in records]


def headers(record):
    """The values of its headers, but for those that stand together as `context`."""
    return [header[1] for header in record["headers"] if isinstance(header, list)]


def sequence(numbers, lsn):
    """Whether the last commit ends where this transaction begins depends on what else is written."""
    last, position = SEQUENCE_PARTS.fullmatch(numbers).groups()
    return f'[{"null" if last == "null" else LAST},{QUOTE}{lsn(position)}{QUOTE}]'


def ranks(numbers, name):
    places = {number: place for place, number in enumerate(sorted(numbers), 1)}
    return lambda number: f"{name}{places[int(number)]}"


def inside(pattern, text, group, change):
    """The text with one group of each match changed."""
    def changed(found):
        start, end = (at - found.start() for at in found.span(group))
        return found[0][:start] + change(found[group]) + found[0][end:]
    return pattern.sub(changed, text)
