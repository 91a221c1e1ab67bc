"""Cases as tests/cases/relay/README.md describes them."""

import base64
import re
from dataclasses import dataclass, field

import yaml

NOW_TOLERANCE_MS = 60_000
CONTEXT = [
    ["__debezium.context.connectorLogicalName", "srv"],
    ["__debezium.context.taskId", "0"],
    ["__debezium.context.connectorName", "postgresql"],
    ["__debezium.context.runId", "RUN"],
]
RUN_ID = re.compile(r"(?<![^\"])[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}(?![^\"])")
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
RESERVED = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "context"}


@dataclass
class Case:
    about: str
    source: str
    schema: str
    tx: list
    before: str = ""
    topics: list = field(default_factory=list)
    partitions: int = 3
    config: dict = field(default_factory=dict)
    properties: str | None = None
    fails: int | None = None
    shows: list = field(default_factory=list)
    records: list = field(default_factory=list)
    base: str = "outbox"
    """What the configuration builds on: that of an outbox, or of tables."""
    waits: bool = False
    """Each transaction waits until what was before it is sent."""
    pause: int | None = None
    """The number of the transaction before which all others must be sent."""
    lenient: bool = False
    """A transaction that PostgreSQL refuses is as if it were not there."""


def read(path):
    return Case(**yaml.safe_load(path.read_text()))


def with_records(text, source, records):
    """A case file's text with another source and other records."""
    head = re.sub(r"\nrecords:.*", "", text, flags=re.S)
    head = re.sub(r"^source: .*$", lambda _: f"source: {source}", head, flags=re.M)
    if not records:
        return f"{head.rstrip()}\nrecords: []\n"
    lines = "".join(f"  - {flow(record)}\n" for record in records)
    return f"{head.rstrip()}\nrecords:\n{lines}"


def written(case):
    """The text of a file with this case."""
    parts = [f"about: {quoted(case.about)}", f"source: {case.source}", f"schema: |\n{indented(case.schema, 2)}"]
    if case.before:
        parts.append(f"before: |\n{indented(case.before, 2)}")
    if case.topics:
        parts.append(f"topics: [{', '.join(map(name, case.topics))}]")
    if case.config:
        parts.append("config:")
        parts += [f"  {key}: {'null' if value is None else quoted(value)}" for key, value in case.config.items()]
    parts.append("tx:")
    parts += [f"  - |\n{indented(sql, 4)}" for sql in case.tx]
    return with_records("\n".join(parts) + "\nrecords: []\n", case.source, case.records)


def as_expected(record, started_ms):
    """What a case says of a record that was written after `started_ms`."""
    headers = [[name, run_id(encoded(value)) if name == CONTEXT[3][0] else encoded(value)]
               for name, value in record.headers]
    if headers[:4] == CONTEXT:
        headers[:4] = ["context"]
    now = record.timestamp >= started_ms - NOW_TOLERANCE_MS
    return {"topic": record.topic, "partition": record.partition, "key": encoded(record.key),
            "value": encoded(record.value), "headers": headers, "timestamp": "now" if now else record.timestamp}


def encoded(data):
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def run_id(value):
    return RUN_ID.sub("RUN", value) if isinstance(value, str) else value


def flow(record):
    headers = ", ".join(header if isinstance(header, str) else f"[{name(header[0])}, {scalar(header[1])}]"
                        for header in record["headers"])
    return (f"{{topic: {name(record['topic'])}, partition: {record['partition']}, key: {scalar(record['key'])}, "
            f"value: {scalar(record['value'])}, headers: [{headers}], timestamp: {record['timestamp']}}}")


def name(text):
    return text if PLAIN.fullmatch(text) and text.lower() not in RESERVED else quoted(text)


def scalar(value):
    if value is None:
        return "null"
    return quoted(value) if isinstance(value, str) else f"{{base64: {value['base64']}}}"


def quoted(text):
    """Single quotes where they can, else double quotes with everything unusual escaped."""
    if all(is_usual(character) for character in text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(escaped(character) for character in text) + '"'


def is_usual(character):
    return character.isprintable() and character not in "\ufeff"


def escaped(character):
    if character in '"\\':
        return "\\" + character
    if is_usual(character):
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def indented(text, by):
    return "\n".join(" " * by + line if line else "" for line in text.rstrip("\n").split("\n"))
