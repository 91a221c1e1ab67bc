"""Random outbox tables."""

import re
from dataclasses import dataclass

import column_types
from column_types import ColumnType

TABLES = [("public", "outbox")] * 5 + [
    ("public", "Outbox"), ("public", "out box"), ("public", "outbox_täble"), ("shop", "outbox"), ("Shop 1", "events-v2"),
]
NAMES = {
    "id": ["id", "id", "id", "event_id", "Event Id", "ID"],
    "route": ["aggregatetype", "aggregatetype", "aggregatetype", "aggregate_kind", "Aggregate Type", "topic"],
    "key": ["aggregateid", "aggregateid", "aggregateid", "agg-id", "Aggregate_Id", "schlüssel"],
    "type": ["type", "type", "event_type", "Event Type"],
    "payload": ["payload", "payload", "payload", "body", "Pay Load", "päyload"],
}
EXTRA_NAMES = ["tenant", "Prio", "trace id", "ünïcode", "meta", "select", "x-y", "a.b", "n1", "n2", "n3", "Q\"uote",
               "created_at", "attr", "deleted", "zone", "$money", "t\\b"]


@dataclass(frozen=True)
class Column:
    name: str
    type: ColumnType
    role: str
    """id, route, key, type, payload, moment, version, partition or extra."""
    not_null: bool
    default: str | None

    def definition(self):
        parts = [identifier(self.name), self.type.sql]
        parts += [f"default {self.default}"] if self.default else []
        return " ".join(parts + (["not null"] if self.not_null else []))


@dataclass(frozen=True)
class Table:
    schema: str
    name: str
    columns: list
    primary_key: bool

    @property
    def sql(self):
        return f"{identifier(self.schema)}.{identifier(self.name)}"

    def with_role(self, role):
        return next((column for column in self.columns if column.role == role), None)

    def definition(self):
        lines = [column.definition() for column in self.columns]
        if self.primary_key:
            lines.append(f"primary key ({identifier(self.with_role('id').name)})")
        parts = [column_types.SETUP]
        parts += [f"create schema {identifier(self.schema)};"] if self.schema != "public" else []
        parts.append(f"create table {self.sql} (\n  " + ",\n  ".join(lines) + ");")
        parts += [] if self.primary_key else [f"alter table {self.sql} replica identity full;"]
        return "\n".join(parts)


def random_table(rng, null_keys):
    schema, name = rng.choice(TABLES)
    columns = [role_column(rng, role, null_keys) for role in NAMES]
    columns += [column for column in optional_columns(rng) if rng.random() < 0.5]
    names = rng.sample(EXTRA_NAMES, rng.randint(1, 9))
    columns += [extra_column(rng, name, rng.choice(column_types.ALL), "extra") for name in names]
    if rng.random() < 0.5:
        rng.shuffle(columns)
    return Table(schema, name, columns, rng.random() < 0.8)


def role_column(rng, role, null_keys):
    name = rng.choice(NAMES[role])
    if role == "id":
        types = [kind for kind in column_types.ALL if kind.sql in ("uuid", "int", "bigint", "text", "varchar(255)")]
        return Column(name, rng.choice(types), role, True, None)
    if role == "route":
        types = [kind for kind in column_types.STRINGS if kind.sql in ("text", "varchar", "varchar(255)", "citext")]
        return Column(name, rng.choice(types), role, True, None)
    if role == "type":
        return Column(name, rng.choice(column_types.STRINGS), role, rng.random() < 0.7, None)
    if role == "key":
        return extra_column(rng, name, key_type(rng), role, True if not null_keys else None)
    return extra_column(rng, name, payload_type(rng), role)


def optional_columns(rng):
    def of(sql):
        return next(kind for kind in column_types.ALL if kind.sql == sql)

    yield extra_column(rng, "happened", rng.choice(column_types.TIMESTAMPS), "moment")
    yield extra_column(rng, "version", of("int"), "version")
    yield extra_column(rng, "part", of("int"), "partition")


def extra_column(rng, name, kind, role, not_null=None):
    not_null = rng.random() < 0.4 if not_null is None else not_null
    return Column(name, kind, role, not_null, default(rng, kind, role))


def default(rng, kind, role):
    if rng.random() < 0.75 or role in ("version", "partition", "moment"):
        return None
    if kind.default and rng.random() < 0.5:
        return kind.default
    value = kind.value(rng)
    # Debezium cuts a default at a quote and finds none behind a line break; rarely, since it spoils the whole case.
    return literal(value) if rng.random() < 0.1 or not re.search("['\n\u2028]", value) else None


def key_type(rng):
    usual = column_types.STRINGS[:6] + column_types.INTEGERS
    return rng.choice(usual if rng.random() < 0.8 else column_types.ALL)


def payload_type(rng):
    chance = rng.random()
    if chance < 0.6:
        return rng.choice(column_types.JSON)
    if chance < 0.85:
        return rng.choice(column_types.BYTES + column_types.STRINGS[:4])
    return rng.choice(column_types.ALL)


def identifier(name):
    return '"' + name.replace('"', '""') + '"'


def literal(value):
    """What cannot be seen is escaped, so that a case can be read."""
    if value is None:
        return "null"
    text = value.replace("'", "''")
    if text.isprintable():
        return f"'{text}'"
    return "E'" + "".join(map(escaped, text)) + "'"


def escaped(character):
    if character == "\\":
        return "\\\\"
    return character if character.isprintable() else f"\\u{ord(character):04x}"
