"""Random chains of transforms, and their predicates."""

from change_tables import COMMON

KAFKA, DEBEZIUM = "org.apache.kafka.connect.transforms.", "io.debezium.transforms."
NAMES = ["id", *COMMON, "tenant", "trace id", "ünïcode", "x-y"]
META = ["op", "table", "schema", "db", "lsn", "ts_ms", "source.ts_ms", "source.ts_us", "source.txId", "source.snapshot", "source.name",
        "source.version", "source.connector", "transaction.id", "before.n"]


class Links:
    """What may come next in a chain. Each link is a dictionary of its options, `type` with them."""

    def __init__(self, rng, tag):
        self.rng, self.tag = rng, tag
        self.flat = False
        """Whether values are rows, not envelopes any more."""

    def any(self):
        rng = self.rng
        if not self.flat and rng.random() < 0.45:
            self.flat = True
            return self.unwrap()
        links = [self.regex_router, self.insert_header, self.drop_headers, self.filter, self.hoist, self.flatten, self.schema_metadata,
                 self.insert_field, self.cast_key, self.replace_key, self.mask, self.replace, self.vectors, self.geometries, self.schema_change_filter]
        if self.flat:
            links += [self.value_to_key, self.extract_key, self.mask, self.replace, self.insert_field, self.cast, self.cast, self.header_from,
                      self.timestamp, self.timestamp, self.header_to_value, self.extract_value]
        else:
            links += [self.logical_router, self.changed, self.partition_routing, self.timezone, self.timezone, self.extract_after,
                      self.source_schema, self.event_router, self.event_router]
        return rng.choice(links)()

    def unwrap(self):
        rng, options = self.rng, {}
        if rng.random() < 0.8:
            modes = ["drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone", "none"]
            options["delete.tombstone.handling.mode"] = rng.choice(modes)
        for place in ("fields", "headers"):
            if rng.random() < 0.5:
                names = [name + rng.choice(["", "", ":alias_" + name.replace(".", "_")]) for name in self._some(META, 4)]
                options[f"add.{place}"] = ",".join(names)
                if rng.random() < 0.3:
                    options[f"add.{place}.prefix"] = rng.choice(["", "m_", "__meta."])
        if rng.random() < 0.1:
            options["route.by.field"] = rng.choice(["v", "id"])
        if rng.random() < 0.1:
            options["drop.fields.header.name"] = rng.choice(["changed", "Unchanged"])
            options |= rng.choice([{}, {"drop.fields.from.key": "true"}, {"drop.fields.keep.schema.compatible": "false"}])
        return {"type": DEBEZIUM + "ExtractNewRecordState", **options}

    def event_router(self):
        """Of one table in ten, whose rows mostly are not events."""
        options = {f"table.field.event.{role}": name for role, name in (("key", "id"), ("payload", "v"), ("type", "n"))}
        if self.rng.random() < 0.3:
            options["table.fields.additional.placement"] = self.rng.choice(["n:header", "n:envelope,flag:header:Flag", "at:envelope"])
        if self.rng.random() < 0.2:
            options["table.field.event.timestamp"] = "n"
        return {"type": DEBEZIUM + "outbox.EventRouter", "route.by.field": self.rng.choice(["id", "n", "flag"]),
                "route.topic.replacement": self.tag + ".events", "predicate": "first", **options}

    def changed(self):
        return {"type": DEBEZIUM + "ExtractChangedRecordState", "header.changed.name": "Changed", "header.unchanged.name": "Unchanged"}

    def regex_router(self):
        regex, replacement = self.rng.choice([
            (rf"{self.tag}\.(\w+)\.(.*)", f"{self.tag}-$2"), ("(.*)", "all.$1"), (r"(.*?)\d+", "$1"), (rf"({self.tag}).*", "$1.one"),
        ])
        return {"type": KAFKA + "RegexRouter", "regex": regex, "replacement": replacement}

    def logical_router(self):
        options = {"topic.regex": r"(.*?)(\d+)", "topic.replacement": "$1_all"}
        if self.rng.random() < 0.6:
            options |= {"key.field.name": "shard", "key.field.regex": r"(.*?)(\d+)", "key.field.replacement": "$2"}
        elif self.rng.random() < 0.5:
            options["key.enforce.uniqueness"] = "false"
        return {"type": DEBEZIUM + self.rng.choice(["ByLogicalTableRouter", "ToLogicalTopicRouter"]), **options}

    def partition_routing(self):
        fields = self.rng.choice(["change.v", "change.n", "source.table", "change.id,change.n", "op"])
        hashing = self.rng.choice([{}, {"partition.hash.function": "java"}, {"partition.hash.function": "murmur"}])
        return {"type": DEBEZIUM + "partitions.PartitionRouting", "partition.payload.fields": fields, "partition.topic.num": "3", **hashing}

    def timezone(self):
        rng = self.rng
        options = {"converted.timezone": rng.choice(["+05:30", "UTC", "-08:00", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"])}
        if rng.random() < 0.5:
            options[rng.choice(["include.list", "exclude.list"])] = rng.choice(ZONED)
        return {"type": DEBEZIUM + "TimezoneConverter", **options}

    def vectors(self):
        return {"type": DEBEZIUM + "VectorToJsonConverter"}

    def geometries(self):
        return self.rng.choice([
            {"type": DEBEZIUM + "GeometryFormatTransformer", "format": self.rng.choice(["wkb", "ewkb"])},
            {"type": DEBEZIUM + "SwapGeometryCoordinates"}, {"type": DEBEZIUM + "SwapGeometryCoordinates", "srids": "4326,25832"},
        ])

    def source_schema(self):
        return {"type": DEBEZIUM + "ExtractSchemaToNewRecord"}

    def schema_change_filter(self):
        return {"type": DEBEZIUM + "SchemaChangeEventFilter", "schema.change.event.exclude.list": "DROP,ALTER"}

    def extract_after(self):
        self.flat = True
        return {"type": KAFKA + "ExtractField$Value", "field": self.rng.choice(["after", "before", "source"])}

    def extract_value(self):
        return {"type": KAFKA + "ExtractField$Value", "field": self.rng.choice(NAMES)}

    def extract_key(self):
        return {"type": KAFKA + "ExtractField$Key", "field": "id"}

    def value_to_key(self):
        options = {"fields": ",".join(self._some(NAMES, 2))}
        if self.rng.random() < 0.3:
            options["replace.null.with.default"] = "false"
        return {"type": KAFKA + "ValueToKey", **options}

    def replace(self):
        where = NAMES if self.flat else ["before", "after", "op", "ts_ms", "source", "transaction", "ts_us"]
        options = self.rng.choice([
            {"exclude": ",".join(self._some(where, 2))}, {"include": ",".join(self._some(where, 5))},
            {"renames": ",".join(f"{name}:{name}_new" for name in self._some(where, 2))},
        ])
        return {"type": KAFKA + "ReplaceField$Value", **options}

    def replace_key(self):
        return {"type": KAFKA + "ReplaceField$Key", "renames": "id:identity"}

    def mask(self):
        # Kafka's own zero of a decimal has no digits behind the point, and most converters refuse it.
        masked = [name for name in NAMES if name != "amount"]
        options = {"fields": ",".join(self._some(masked if self.flat else ["op", "ts_ms", "ts_ns"], 2))}
        if self.rng.random() < 0.3:
            options["replacement"] = "***"
        return {"type": KAFKA + "MaskField$Value", **options}

    def insert_field(self):
        options = self.rng.choice([
            {"static.field": "origin", "static.value": "lab"}, {"topic.field": "topic!"}, {"timestamp.field": "record_at?"},
            {"static.field": "origin", "static.value": "lab", "topic.field": "the topic"}, {"partition.field": "part"},
        ])
        return {"type": KAFKA + self.rng.choice(["InsertField$Value", "InsertField$Value", "InsertField$Key"]), **options}

    def cast(self):
        targets = ["int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string"]
        spec = ",".join(f"{name}:{self.rng.choice(targets)}" for name in self._some(NAMES, 3))
        return {"type": KAFKA + "Cast$Value", "spec": spec}

    def cast_key(self):
        return {"type": KAFKA + "Cast$Key", "spec": f"id:{self.rng.choice(['string', 'int32', 'int64', 'float64'])}"}

    def timestamp(self):
        rng = self.rng
        options = {"field": rng.choice(["at", "tz", "n", "__source_ts_ms"]), "target.type": rng.choice(["string", "unix", "Date", "Time", "Timestamp"])}
        options["format"] = rng.choice(["yyyy-MM-dd HH:mm:ss.SSS", "yyyy-MM-dd'T'HH:mm:ss'Z'", "EEE, d MMM yyyy"])
        if rng.random() < 0.6:
            options["unix.precision"] = rng.choice(["microseconds", "milliseconds", "nanoseconds", "seconds"])
        return {"type": KAFKA + "TimestampConverter$Value", **options}

    def schema_metadata(self):
        return {"type": KAFKA + "SetSchemaMetadata$Value", "schema.name": "org.example.T", "schema.version": "3"}

    def hoist(self):
        self.flat = True
        return {"type": KAFKA + self.rng.choice(["HoistField$Value", "HoistField$Key"]), "field": "event"}

    def flatten(self):
        self.flat = True
        delimiter = self.rng.choice([{}, {"delimiter": "_"}])
        return {"type": KAFKA + self.rng.choice(["Flatten$Value", "Flatten$Key"]), **delimiter}

    def insert_header(self):
        return {"type": KAFKA + "InsertHeader", "header": "app", "value.literal": self.rng.choice(["shop", "42", "1.5", "true", "[1,2]", "null"])}

    def drop_headers(self):
        return {"type": KAFKA + "DropHeaders", "headers": self.rng.choice(["__op,app", "__debezium.newkey", "__debezium.context.taskId"])}

    def header_from(self):
        names = self._some(NAMES, 2)
        headers = ",".join(f"h_{name}" for name in names)
        return {"type": KAFKA + "HeaderFrom$Value", "fields": ",".join(names), "headers": headers, "operation": self.rng.choice(["copy", "move"])}

    def header_to_value(self):
        return {"type": DEBEZIUM + "HeaderToValue", "headers": "__op,app", "fields": self.rng.choice(["operation,application", "meta.operation,application"]),
                "operation": self.rng.choice(["copy", "move"])}

    def filter(self):
        return {"type": KAFKA + "Filter", "predicate": self.rng.choice(list(PREDICATES)), "negate": self.rng.choice(["false", "true"])}

    def _some(self, names, most):
        return self.rng.sample(names, self.rng.randint(1, min(most, len(names))))


ZONED = ["source:t1:ts_ms", "source:t1,t2", "source:orders2:tz,t5:at", "t1:at", "source:t1:source.ts_ms,t1:at", "topic:no.such.topic", "t1:before.tz"]
"""Debezium wants a colon in the first rule, and none or one in the others."""
PREDICATES = {
    "tombstone": {"type": KAFKA + "predicates.RecordIsTombstone"},
    "odd": {"type": KAFKA + "predicates.TopicNameMatches", "pattern": r".*[13579]"},
    "first": {"type": KAFKA + "predicates.TopicNameMatches", "pattern": r".*1"},
    "moved": {"type": KAFKA + "predicates.HasHeaderKey", "name": "__debezium.oldkey"},
}


def random_chain(rng, tables, tag):
    links, config, names = Links(rng, tag), {}, []
    for number in range(rng.choice([1, 1, 2, 3, 4])):
        link = links.any()
        names.append(f"t{number}")
        if "predicate" not in link and rng.random() < 0.12:
            link |= {"predicate": rng.choice(list(PREDICATES)), "negate": rng.choice(["false", "true"])}
        config |= {f"transforms.t{number}.{key}": value for key, value in link.items()}
    used = {value for key, value in config.items() if key.endswith(".predicate")}
    if used:
        config["predicates"] = ",".join(sorted(used))
        config |= {f"predicates.{name}.{key}": value for name in sorted(used) for key, value in PREDICATES[name].items()}
    return {"transforms": ",".join(names), **config}
