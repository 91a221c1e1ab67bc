"""Random options of a connector that sends change events."""

import re

from change_tables import IDS, plain
from change_transforms import random_chain
from options import JSON, MODES, STRING, header_converter, json_options, regex_literal
from tables import identifier, literal

BASE = {"transforms.outbox.type": None, "table.include.list": None, "tombstones.on.delete": None, "transforms": None}
"""Without what an outbox' connector has."""
CHANGES = {
    "time.precision.mode": [*MODES["time.precision.mode"], "structured"],
    "tombstones.on.delete": ["true", "false"],
    "skipped.operations": ["none", "none", "t", "u,d", "d", "c", "u,t"],
    "skip.messages.without.change": ["true"],
    "provide.transaction.metadata": ["true"],
    "topic.transaction": ["tx", "my.transactions"],
    "include.unknown.datatypes": ["true"],
    "unavailable.value.placeholder": ["n/a", "hex:0102ff", "__é__"],
    "publish.via.partition.root": ["true", "false"],
    "topic.delimiter": ["-", "_", "."],
    "topic.naming.strategy": [f"io.debezium.schema.{name}TopicNamingStrategy" for name in ("Default", "SchemaUnicode", "Schema")],
    "schema.name.adjustment.mode": ["avro", "avro_unicode", "none"],
    "field.name.adjustment.mode": ["avro", "avro_unicode", "none"],
    "extended.headers.enabled": ["false", "true"],
    "event.converting.failure.handling.mode": ["warn", "skip", "fail"],
    "message.prefix.include.list": ["audit", "a.*", "audit,é.*"],
    "table.ignore.builtin": ["false"],
    "schema.refresh.mode": ["columns_diff_exclude_unchanged_toast"],
}


def random_change_config(rng, tables, tag):
    config = {"topic.prefix": tag, "errors.tolerance": "all"}
    modes = {**MODES, **CHANGES, "snapshot.mode": ["initial", "initial", "no_data", "no_data", "always", "when_needed"]}
    config |= {key: rng.choice(values) for key, values in modes.items() if rng.random() < (0.5 if key in ("snapshot.mode",) else 0.22)}
    if stops(config.get("time.precision.mode"), tables):
        del config["time.precision.mode"]
    if config.get("binary.handling.mode", "bytes").startswith("base64") and any(map(has_required_large_bytes, tables)):
        del config["binary.handling.mode"]
    config |= columns(rng, tables)
    if any(key in config for key in ("column.include.list", "column.exclude.list")) and leaves_out_key(config, tables):
        # Of a key that is left out Debezium's snapshot reads nothing, and stops.
        config["snapshot.mode"] = "no_data"
    config |= tables_left_out(rng, tables) | snapshot(rng, tables)
    # A key by StringConverter may hold the address of a Java object, and choose another partition each time.
    config |= converter(rng, "key", [JSON]) | converter(rng, "value", [STRING, *[JSON] * 9]) | header_converter(rng)
    if rng.random() < 0.6:
        config |= random_chain(rng, tables, tag)
    return {**BASE, **config}


def stops(time_mode, tables):
    """A year that nanoseconds do not reach is null, and so is as a struct a time that the old row does not tell. Where null
    cannot be Debezium stops."""
    of = {"nanoseconds": r"timestamp", "structured": r"time(\(\d\))?$"}.get(time_mode)
    required = [column.type.sql for table in tables for column in table.columns if column.not_null]
    return bool(of) and any(re.match(of, sql) for sql in required)


def snapshot(rng, tables):
    """Which tables and rows of them a snapshot has."""
    options = {}
    # Of other names Debezium stops.
    usual = [table for table in tables if re.fullmatch(r"[\w$]+", table.schema + table.name)]
    if rng.random() < 0.15:
        chosen = rng.sample(tables, min(len(tables), rng.choice([1, 3, 8])))
        options["snapshot.include.collection.list"] = ",".join(regex_literal(f"{table.schema}.{table.name}") for table in chosen)
    if usual and rng.random() < 0.15:
        chosen = rng.sample(usual, min(len(usual), 3))
        options["snapshot.select.statement.overrides"] = ",".join(f"{table.schema}.{table.name}" for table in chosen)
        options |= {f"snapshot.select.statement.overrides.{table.schema}.{table.name}": selected(rng, table) for table in chosen}
    return options


def selected(rng, table):
    of_first = f"{identifier(table.id.name)} = {literal(IDS[table.id.type.sql](1))}"
    return rng.choice([f"select * from {table.sql} where {of_first}", f"select * from {table.sql} where not {of_first}",
                       f"select * from {table.sql} where false"])


def leaves_out_key(config, tables):
    """Whether a column of a table's key may be left out."""
    if "column.include.list" in config:
        return True
    patterns = config["column.exclude.list"].split(",")
    names = [f"{table.schema}.{table.name}.{name}" for table in tables for name in (*table.key, *table.index)]
    return any(re.fullmatch(pattern, name, re.I) for pattern in patterns for name in names)


def has_required_large_bytes(table):
    """Where an update leaves one alone Debezium has nothing to send in base64, and stops."""
    return any(column.not_null and (column.role, column.type.sql) == ("large", "bytea") for column in table.columns)


def converter(rng, role, choices):
    chosen = rng.choice(choices)
    options = json_options(rng) if chosen == JSON else {}
    return {f"{role}.converter": chosen} | {f"{role}.converter{key}": value for key, value in options.items()}


def columns(rng, tables):
    """Options that name columns."""
    options = {}

    def some(usable=lambda column: True):
        named = [(table, column) for table in tables for column in table.columns if plain(column.name) and usable(column)]
        chosen = rng.sample(named, min(len(named), rng.randint(1, 6)))
        literals = [regex_literal(f"{table.schema}.{table.name}.{column.name}") for table, column in chosen]
        return ",".join([*literals, *rng.choice([[], [], [r".*\.v"], [r"public\..*\.(n|at)"]])])

    def texts(column):
        return column.type.kind == "string"

    if rng.random() < 0.15:
        options["column.exclude.list"] = some(lambda column: column.role != "id")
    elif rng.random() < 0.1:
        options["column.include.list"] = some() + r",.*\.id"
    if rng.random() < 0.15:
        options[f"column.truncate.to.{rng.choice([1, 3, 20])}.chars"] = some(texts)
    if rng.random() < 0.15:
        options[f"column.mask.with.{rng.choice([0, 3, 12])}.chars"] = some(texts)
    if rng.random() < 0.15:
        version = rng.choice(["hash", "hash.v2"])
        options[f"column.mask.{version}.{rng.choice(['SHA-256', 'SHA-512', 'MD5'])}.with.salt.salty"] = some(texts)
    if rng.random() < 0.15:
        options["column.propagate.source.type"] = rng.choice([".*", some()])
    if rng.random() < 0.1:
        options["datatype.propagate.source.type"] = rng.choice([r".*\.varchar", r".*\.(NUMERIC|int4|TEXT)", ".+"])
    if rng.random() < 0.15:
        options["message.key.columns"] = key_columns(rng, tables)
    return options


def key_columns(rng, tables):
    parts = []
    for table in rng.sample(tables, min(len(tables), rng.randint(1, 5))):
        named = [column.name for column in table.columns if plain(column.name)]
        if named:
            chosen = rng.sample(named, min(len(named), rng.choice([1, 1, 2])))
            parts.append(f"{regex_literal(table.schema + '.' + table.name)}:{','.join(chosen)}")
    return ";".join(parts)


def tables_left_out(rng, tables):
    names = [regex_literal(f"{table.schema}.{table.name}") for table in rng.sample(tables, min(len(tables), 2))]
    every = [regex_literal(f"{table.schema}.{table.name}") for table in rng.sample(tables, len(tables))]
    # Of a partitioned table in the list Debezium streams nothing.
    listed = {} if any(table.partitioned for table in tables) else {"table.include.list": ",".join(every)}
    return rng.choice([{}, {}, {}, listed, {"table.exclude.list": ",".join(names)}, {"schema.include.list": "public,shop"},
                       {"schema.exclude.list": "shop"}])
