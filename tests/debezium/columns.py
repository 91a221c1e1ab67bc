"""What Debezium makes of a column, type by type and option by option: tests/cases/columns.tsv, extension-columns.tsv."""

import json
import pathlib
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass

from database import Database
from systems import Debezium
from trial import Side, config

CASES = pathlib.Path(__file__).parent.parent / "cases"
ARRIVAL_SECONDS = 60
OWN_TYPES = """
CREATE EXTENSION citext; CREATE EXTENSION hstore; CREATE EXTENSION ltree;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy'); CREATE TYPE comp AS (a int, b text);
CREATE DOMAIN posint AS int CHECK (VALUE > 0); CREATE DOMAIN shorttext AS varchar(10); CREATE DOMAIN vecdom AS comp;
"""
VERSION = "outboxd.debezium.version="
"""A line with this option is of that version of Debezium alone, which ignores the option."""
EXTENSIONS = "CREATE EXTENSION vector; CREATE EXTENSION postgis;"
"""Of these only some servers have the files."""
JSON = "org.apache.kafka.connect.json.JsonConverter"
CONFIG = {"transforms": None, "table.include.list": "public.t", "key.converter": JSON, "value.converter": JSON,
          "key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true"}


@dataclass
class Line:
    type: str
    modifier: str
    text: str
    options: str
    schema: str = ""
    value: str = ""

    @classmethod
    def read(cls, line):
        return cls(*line.split("\t"))

    def written(self):
        return "\t".join((self.type, self.modifier, self.text, self.options, self.schema, self.value))


@dataclass(frozen=True)
class Group:
    """A case as the rest of the recorder knows it: only the configuration."""

    config: dict
    base: str = "outbox"


class Number(float):
    """A number as Connect wrote it."""

    def __new__(cls, text):
        number = super().__new__(cls, text)
        number.text = text
        return number


def columns(trials, check_only, extensions):
    """Measures every line anew, or with `check_only` tells what would change; how many lines differ."""
    path = CASES / ("extension-columns.tsv" if extensions else "columns.tsv")
    types = EXTENSIONS if extensions else OWN_TYPES
    head, *lines = path.read_text().removesuffix("\n").split("\n")
    lines = [Line.read(line) for line in lines]
    groups = defaultdict(list)
    for line in lines:
        if VERSION in line.options and line.options.partition(VERSION)[2].split()[0] != trials.version():
            continue
        groups[line.options].append(line)
    differing = 0
    for options, group in groups.items():
        measured = measure(trials, types, options, group)
        for line, (schema, value) in zip(group, measured):
            if (line.schema, line.value) == (schema, value):
                continue
            differing += 1
            print(f"{line.type} {line.modifier} {line.text} {options}", f"file {line.schema} {line.value}",
                  f"came {schema} {value}", sep="\n    ", flush=True)
            line.schema, line.value = schema, value
    if not check_only:
        versions = trials.versions().removeprefix("recorded from ")
        head = f"{head.partition('(')[0]}(measured: {versions})"
        path.write_text("\n".join([head, *(line.written() for line in lines)]) + "\n")
    print(f"{differing} of {len(lines)} lines differ")
    return differing


def measure(trials, own_types, options, lines):
    """(schema, value) of each line: a column for each type, a row for each line."""
    trials.kafka.delete()
    name = f"columns_{uuid.uuid4().hex[:8]}"
    database = Database(trials.addresses.pg, name)
    database.create()
    side = Side(Debezium(trials.addresses.connect, name), trials.kafka, name)
    try:
        database.execute(own_types)
        types = list(dict.fromkeys((line.type, line.modifier) for line in lines))
        shown = ", ".join(f"c{number} {sql_type(database, *type)}" for number, type in enumerate(types))
        database.execute(f"CREATE TABLE t (id int PRIMARY KEY, {shown})")
        group = Group(CONFIG | dict(option.split("=") for option in options.split()))
        side.system.start(config(group, database, side.slot))
        side.wait_until_streaming(database)
        for number, line in enumerate(lines):
            text = line.text.replace("'", "''")
            column = types.index((line.type, line.modifier))
            database.execute(f"INSERT INTO t (id, c{column}) VALUES ({number}, '{text}')")
        rows = read_rows(side, lines)
        return [column_of(rows[number], f"c{types.index((line.type, line.modifier))}")
                for number, line in enumerate(lines)]
    finally:
        side.system.stop()
        side.broker.delete()
        database.drop()


def sql_type(database, name, modifier):
    """How a column of that type is declared."""
    base, brackets = name.removesuffix("[]"), "[]" if name.endswith("[]") else ""
    shown = '"char"' if base == "char" else base
    return database.query(database.name, f"SELECT format_type('{shown}{brackets}'::regtype, {modifier})")[0][0]


def read_rows(side, lines):
    """The envelope of each line's row, by the number of the line."""
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while side.broker.count() < len(lines) and time.monotonic() < deadline and not side.system.failure():
        time.sleep(0.1)
    envelopes = [json.loads(record.value, parse_float=Number) for record in side.broker.read()]
    rows = {envelope["payload"]["after"]["id"]: envelope for envelope in envelopes}
    if missing := [line.written() for number, line in enumerate(lines) if number not in rows]:
        raise RuntimeError("\n".join([f"{side.system.failure() or 'Debezium'} has not sent", *missing]))
    return rows


def column_of(envelope, column):
    """The column's schema and value as JSON; nothing when it is left out."""
    after = next(field for field in envelope["schema"]["fields"] if field["field"] == "after")
    schema = next((field for field in after["fields"] if field["field"] == column), None)
    if schema is None:
        return "", ""
    unnamed = {name: item for name, item in schema.items() if name != "field"}
    return written(unnamed), written(envelope["payload"]["after"][column])


def written(value):
    """JSON with the numbers as they came."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{written(name)}:{written(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
