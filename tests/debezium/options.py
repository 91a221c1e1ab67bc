"""Random connector, converter and EventRouter options for a table."""

import re

JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
BINARY = "io.debezium.converters.BinaryDataConverter"
DEFAULT_NAMES = {"id": "id", "key": "aggregateid", "payload": "payload", "type": "type"}
ALIASES = ["eventType", "x-tenant", "ünï", "a b", "alias1", "alias2", "alias3", "id", "type", "é😀", "A.b", "payload_2"]
MODES = {
    "decimal.handling.mode": ["precise", "double", "string"],
    "time.precision.mode": ["adaptive", "adaptive_time_microseconds", "isostring", "microseconds", "nanoseconds", "connect"],
    "binary.handling.mode": ["bytes", "base64", "base64-url-safe", "hex"],
    "interval.handling.mode": ["numeric", "string"],
    "hstore.handling.mode": ["json", "map"],
    "money.fraction.digits": ["0", "2", "4"],
    "extended.headers.enabled": ["true", "false"],
    "snapshot.mode": ["initial", "no_data", "no_data"],
    "tombstones.on.delete": ["true", "false"],
    "skipped.operations": ["none", "t", "u,d", "d,t"],
}
ROUTER_MODES = {
    "route.tombstone.on.empty.payload": ["true", "false"],
    "table.op.invalid.behavior": ["warn", "error", "WARN"],
    "table.json.payload.null.behavior": ["ignore", "optional_bytes"],
}


def random_config(rng, table, tag):
    config = {}
    if (table.schema, table.name) != ("public", "outbox"):
        config["table.include.list"] = regex_literal(f"{table.schema}.{table.name}")
    config |= {key: rng.choice(values) for key, values in MODES.items() if rng.random() < 0.3}
    config |= router(rng, table, tag, moments=config.get("time.precision.mode") not in ("isostring", "connect"))
    config |= converter(rng, "key", table.with_role("key"))
    config |= converter(rng, "value", table.with_role("payload"), "envelope" in config.get(PLACEMENT, ""))
    config |= header_converter(rng)
    return config


PLACEMENT = "transforms.outbox.table.fields.additional.placement"


def router(rng, table, tag, moments):
    options = {key: rng.choice(values) for key, values in ROUTER_MODES.items() if rng.random() < 0.4}
    options |= {"table.field.event." + role: table.with_role(role).name for role, usual in DEFAULT_NAMES.items()
                if table.with_role(role).name != usual or rng.random() < 0.1}
    if table.with_role("route").name != "aggregatetype" or rng.random() < 0.1:
        options["route.by.field"] = table.with_role("route").name
    options |= topic(rng, tag)
    if table.with_role("moment") and moments and rng.random() < 0.8:
        options["table.field.event.timestamp"] = "happened"
    options |= placement(rng, table)
    if rng.random() < 0.4:
        options["table.expand.json.payload"] = "true"
    # Of expanded payloads with a version Debezium keeps the first one's schema, and fails on all others.
    elif table.with_role("version") and rng.random() < 0.6:
        options["table.field.event.schema.version"] = "version"
    return {"transforms.outbox." + key: value for key, value in options.items()}


def topic(rng, tag):
    """Every topic keeps the tag, by which it is found again."""
    return rng.choice([
        {},
        {"route.topic.replacement": "${routedByValue}"},
        {"route.topic.replacement": "events.${routedByValue}.v1"},
        {"route.topic.regex": "(.*)\\.(.*)", "route.topic.replacement": "$1_$2-$2"},
        {"route.topic.regex": "(?<shop>s\\d+)\\.([a-z]+)", "route.topic.replacement": "${shop}.lower.$2"},
        {"route.topic.regex": f"{tag}\\.(?i:order)(?<rest>.*)", "route.topic.replacement": tag + ".order${rest}"},
        {"route.topic.regex": "(?<routedByValue>[^.]+)\\..*", "route.topic.replacement": "all.${routedByValue}"},
    ])


def placement(rng, table):
    if rng.random() < 0.25:
        return {}
    usable = [column for column in table.columns if ":" not in column.name and "," not in column.name]
    chosen = rng.sample(usable, rng.randint(1, min(6, len(usable))))
    aliases = rng.sample(ALIASES, len(ALIASES))
    where = rng.choice([["header"], ["header", "envelope"], ["header", "envelope", "HEADER"]])
    items = [item(rng, column.name, rng.choice(where), aliases) for column in chosen]
    if table.with_role("partition") and rng.random() < 0.8:
        items.insert(rng.randint(0, len(items)), "part:partition")
    options = {}
    if rng.random() < 0.1:
        items.append("not_there:header")
        options["table.field.additional.missing"] = "ignore"
    separator = rng.choice([",", ", "])
    return options | {"table.fields.additional.placement": separator.join(items)}


def item(rng, name, place, aliases):
    """The envelope has a field `payload` already."""
    aliased = name == "payload" and place == "envelope" or rng.random() < 0.4
    return f"{name}:{place}:{aliases.pop()}" if aliased else f"{name}:{place}"


def converter(rng, role, column, struct=False):
    """One that can write the column, mostly."""
    choices = [STRING, JSON, JSON]
    if column.type.kind == "bytes" and not struct:
        choices = [BYTES, BINARY, JSON, STRING]
    chosen = rng.choice(choices if rng.random() < 0.98 else [BYTES, BINARY])
    delegated = chosen in (JSON, STRING) and rng.random() < 0.1
    options = {"": BINARY if delegated else chosen}
    prefix = ".delegate.converter.type" if delegated else ""
    options[prefix] = chosen
    if chosen == JSON:
        options |= json_options(rng, prefix)
    if delegated:
        options[""] = BINARY
    return {f"{role}.converter{key}": value for key, value in options.items()}


def json_options(rng, prefix=""):
    options = {}
    if rng.random() < 0.65:
        options[f"{prefix}.schemas.enable"] = rng.choice(["false", "false", "true"])
    if rng.random() < 0.3:
        options[f"{prefix}.decimal.format"] = rng.choice(["NUMERIC", "BASE64", "numeric"])
    if rng.random() < 0.1:
        options[f"{prefix}.replace.null.with.default"] = rng.choice(["true", "false"])
    return options


def header_converter(rng):
    chosen = rng.choice([None, None, SIMPLE, JSON, STRING])
    if not chosen:
        return {}
    options = {"": chosen} | (json_options(rng) if chosen == JSON else {})
    return {f"header.converter{key}": value for key, value in options.items()}


def regex_literal(text):
    return re.sub(r"([^A-Za-z0-9_ äö-])", r"\\\1", text)
