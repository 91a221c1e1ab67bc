//! Schemas of every kind, each with a value, under the names of `tests/golden/avro/converter.tsv`.

use std::borrow::Cow;
use std::sync::Arc;

use crate::{Decimal, Field, Kind, Schema, Value};

pub(super) fn optional(kind: Kind) -> Schema {
    Schema::new(kind).optional(true)
}

pub(super) fn with_default(mut schema: Schema, default: Value<'static>) -> Schema {
    schema.default = Some(default);
    schema
}

pub(super) fn structure(name: &str, fields: Vec<(&str, Schema)>) -> Schema {
    let fields = fields.into_iter().map(|(name, schema)| Field::new(name, Arc::new(schema))).collect();
    let mut schema = Schema::new(Kind::Struct(fields));
    schema.name = Some(Cow::Owned(name.to_owned()));
    schema
}

pub(super) fn versioned(mut schema: Schema, version: i32, doc: Option<&'static str>) -> Schema {
    (schema.version, schema.doc) = (Some(version), doc);
    schema
}

pub(super) fn bytes(bytes: &'static [u8]) -> Value<'static> {
    Value::Bytes(Cow::Borrowed(bytes))
}

pub(super) fn decimal(scale: i32, precision: Option<u32>) -> Schema {
    let schema =
        Schema::named(Kind::Bytes, "org.apache.kafka.connect.data.Decimal").with_parameter("scale", scale);
    precision
        .into_iter()
        .fold(schema, |schema, digits| schema.with_parameter("connect.decimal.precision", digits))
}

pub(super) fn number(text: &str) -> Value<'static> {
    Value::Decimal(Decimal::parse(text).unwrap())
}

fn hundreds() -> Value<'static> {
    Value::Decimal(Decimal::parse("1200").and_then(|number| number.with_scale(-2)).unwrap())
}

pub(super) fn strings() -> Kind {
    Kind::Array(Arc::new(optional(Kind::String)))
}

pub(super) fn map() -> Kind {
    Kind::Map(Arc::new(Schema::new(Kind::String)), Arc::new(optional(Kind::String)))
}

pub(super) fn variable() -> Schema {
    let fields = vec![("scale", Schema::new(Kind::Int32)), ("value", Schema::new(Kind::Bytes))];
    versioned(structure("io.debezium.data.VariableScaleDecimal", fields), 1, Some("Variable scaled decimal"))
}

pub(super) fn json() -> Schema {
    Schema::named(Kind::String, "io.debezium.data.Json").optional(true)
}

pub(super) fn expanded() -> Schema {
    let x = || vec![("x", optional(Kind::Int32))];
    let items = Kind::Array(Arc::new(structure("payload.items", x())));
    let fields = vec![
        ("a", structure("payload.a", x()).optional(true)),
        ("items", optional(items)),
        ("s", optional(Kind::String)),
    ];
    structure("payload", fields).optional(true)
}

/// Returns the cases whose values are not records.
pub(super) fn plain_cases() -> Vec<(&'static str, Schema, Value<'static>)> {
    let text = Value::str;
    let zero_uuid = "00000000-0000-0000-0000-000000000000";
    let raw = bytes(&[0, 34, 92, 0x7F, 0x80, 0xFE]);
    let list = Value::Array(vec![text("a"), Value::Null]);
    let entries = Value::Map(vec![(text("a"), Value::Null), (text("b"), text("1"))]);
    let connect = |kind, name| Schema::named(kind, name);
    vec![
        ("string", Schema::new(Kind::String), text("order-1")),
        ("optional string", optional(Kind::String), text("a")),
        ("json", json(), text("{\"a\": \"é😀\"}")),
        ("json default", with_default(json(), text("{}")), text("{}")),
        (
            "uuid default",
            with_default(Schema::named(Kind::String, "io.debezium.data.Uuid"), text(zero_uuid)),
            text("7f2e"),
        ),
        ("int16", Schema::new(Kind::Int16), Value::Int16(-7)),
        ("optional int16 default", with_default(optional(Kind::Int16), Value::Int16(3)), Value::Int16(300)),
        ("int32", Schema::new(Kind::Int32), Value::Int32(-1)),
        ("int64", Schema::new(Kind::Int64), Value::Int64(i64::MIN)),
        (
            "micro timestamp",
            Schema::named(Kind::Int64, "io.debezium.time.MicroTimestamp"),
            Value::Int64(1_700_000_000_000_000),
        ),
        ("float32", Schema::new(Kind::Float32), Value::Float32(0.1)),
        (
            "optional float32 default",
            with_default(optional(Kind::Float32), Value::Float32(0.1)),
            Value::Float32(0.1),
        ),
        (
            "optional float64 default",
            with_default(optional(Kind::Float64), Value::Float64(1e21)),
            Value::Float64(1.5),
        ),
        ("boolean", with_default(optional(Kind::Boolean), Value::Bool(true)), Value::Bool(false)),
        ("bytes", Schema::new(Kind::Bytes), bytes(&[0, 1, 0xFE])),
        ("optional bytes", optional(Kind::Bytes), bytes(&[0, 1, 0xFE])),
        ("optional bytes default", with_default(optional(Kind::Bytes), raw), bytes(&[])),
        ("decimal", decimal(2, None), number("123.40")),
        ("optional decimal precision", decimal(2, Some(10)).optional(true), number("-1.50")),
        (
            "decimal default",
            with_default(decimal(2, Some(10)).optional(true), number("1.28")),
            number("-1.50"),
        ),
        ("decimal negative scale", decimal(-2, Some(3)), hundreds()),
        ("decimal scale beyond precision", decimal(5, Some(3)), number("0.00123")),
        (
            "connect date",
            connect(Kind::Int32, "org.apache.kafka.connect.data.Date").optional(true),
            Value::Int32(10),
        ),
        ("connect time", connect(Kind::Int32, "org.apache.kafka.connect.data.Time"), Value::Int32(1000)),
        (
            "connect timestamp",
            with_default(connect(Kind::Int64, "org.apache.kafka.connect.data.Timestamp"), Value::Int64(0)),
            Value::Int64(1000),
        ),
        ("strings", optional(strings()), list.clone()),
        ("no strings", Schema::new(strings()), Value::Array(vec![])),
        ("array default", with_default(optional(strings()), list), Value::Array(vec![])),
        ("map", optional(map()), entries),
        (
            "enum",
            Schema::named(Kind::String, "io.debezium.data.Enum").with_parameter("allowed", "a,b"),
            text("a"),
        ),
    ]
}

pub(super) fn record_cases() -> Vec<(&'static str, Schema, Value<'static>)> {
    let text = Value::str;
    let amount = || Value::Struct(vec![Value::Int32(2), bytes(&[0x7D])]);
    let flag = || with_default(optional(Kind::Boolean), Value::Bool(true));
    let order = "srv.public.outbox.Order.Value";
    let envelope = structure(
        order,
        vec![
            ("payload", json()),
            ("eventType", Schema::new(Kind::String)),
            ("total", variable().optional(true)),
            ("tax", variable().optional(true)),
            ("flag", flag()),
        ],
    );
    let twice = vec![("a", variable()), ("b", variable().optional(true)), ("c", variable())];
    let deep = structure("payload.a.b", vec![("x", optional(Kind::Int64))]).optional(true);
    let deep = structure("payload.a", vec![("b", deep)]).optional(true);
    let in_envelope = vec![("payload", expanded()), ("eventType", Schema::new(Kind::String))];
    let no_space = || structure("NoSpace", vec![("q", Schema::new(Kind::Int32))]);
    let five = || Value::Struct(vec![Value::Int32(5)]);
    let point = vec![
        ("x", Schema::new(Kind::Float64)),
        ("y", Schema::new(Kind::Float64)),
        ("wkb", optional(Kind::Bytes)),
        ("srid", optional(Kind::Int32)),
    ];
    let point = versioned(structure("io.debezium.data.geometry.Point", point), 1, Some("Geometry (POINT)"));
    vec![
        ("variable", variable(), amount()),
        ("optional variable", variable().optional(true), amount()),
        (
            "variables",
            Schema::new(Kind::Array(Arc::new(variable().optional(true)))),
            Value::Array(vec![amount()]),
        ),
        (
            "envelope",
            versioned(envelope, 3, None),
            Value::Struct(vec![text("{}"), text("X"), amount(), Value::Null, Value::Null]),
        ),
        (
            "envelope required and optional",
            structure(order, twice),
            Value::Struct(vec![amount(), amount(), amount()]),
        ),
        (
            "expanded",
            expanded(),
            Value::Struct(vec![five(), Value::Array(vec![Value::Struct(vec![Value::Null])]), text("t")]),
        ),
        (
            "deep",
            structure("payload", vec![("a", deep)]).optional(true),
            Value::Struct(vec![Value::Struct(vec![Value::Struct(vec![Value::Int64(5)])])]),
        ),
        (
            "expanded in envelope",
            structure(order, in_envelope),
            Value::Struct(vec![Value::Struct(vec![five(), Value::Null, text("t")]), text("X")]),
        ),
        (
            "hyphen in namespace",
            structure("my-srv.public.outbox.Order.Value", vec![("a", Schema::new(Kind::Int32))]),
            Value::Struct(vec![Value::Int32(1)]),
        ),
        ("empty struct", structure("payload", vec![]).optional(true), Value::Struct(vec![])),
        (
            "point",
            point.optional(true),
            Value::Struct(vec![Value::Float64(1.0), Value::Float64(2.0), Value::Null, Value::Null]),
        ),
        (
            "no namespace inside one",
            structure("a.b.C", vec![("plain", no_space()), ("again", no_space().optional(true))]),
            Value::Struct(vec![Value::Struct(vec![Value::Int32(1)]), Value::Null]),
        ),
    ]
}

/// Returns the cases with sparse vectors, whose numbers are in a map with numeric keys.
pub(super) fn sparse_cases() -> Vec<(&'static str, Schema, Value<'static>)> {
    let numbers = Kind::Map(Arc::new(Schema::new(Kind::Int16)), Arc::new(Schema::new(Kind::Float64)));
    let fields = vec![("dimensions", Schema::new(Kind::Int16)), ("vector", Schema::new(numbers))];
    let sparse =
        versioned(structure("io.debezium.data.SparseDoubleVector", fields), 1, Some("Sparse double vector"));
    let of = |dimensions, entries: &[(i16, f64)]| {
        let entry = |(place, number): &(i16, f64)| (Value::Int16(*place), Value::Float64(*number));
        Value::Struct(vec![Value::Int16(dimensions), Value::Map(entries.iter().map(entry).collect())])
    };
    let row = structure(
        "srv.Value",
        vec![
            ("s", sparse.clone().optional(true)),
            ("t", sparse.clone()),
            ("l", Schema::new(Kind::Array(Arc::new(sparse.clone())))),
        ],
    );
    let values = vec![of(5, &[(3, 2.5), (1, -0.5)]), of(300, &[]), Value::Array(vec![of(2, &[(2, 1e20)])])];
    vec![
        ("sparse vector", sparse, of(5, &[(1, 1.5), (3, 2.5)])),
        ("sparse vectors in a row", row, Value::Struct(values)),
    ]
}

/// Returns the cases with change events, keys, and nulls.
pub(super) fn change_cases() -> Vec<(&'static str, Schema, Value<'static>)> {
    let text = Value::str;
    let key = structure("srv.public.orders.Key", vec![("id", Schema::new(Kind::Int64))]);
    let source = structure(
        "io.debezium.connector.postgresql.Source",
        vec![
            ("version", Schema::new(Kind::String)),
            ("ts_ms", Schema::new(Kind::Int64)),
            ("snapshot", snapshot_marker()),
            ("sequence", optional(Kind::String)),
            ("lsn", optional(Kind::Int64)),
        ],
    );
    let event = structure(
        "srv.public.orders.Envelope",
        vec![
            ("before", row().optional(true)),
            ("after", row().optional(true)),
            ("source", versioned(source, 1, None)),
            ("transaction", versioned(transaction(), 1, None).optional(true)),
            ("op", Schema::new(Kind::String)),
            ("ts_ms", optional(Kind::Int64)),
        ],
    );
    let source =
        || Value::Struct(vec![text("3.7"), Value::Int64(1), text("false"), Value::Null, Value::Int64(7)]);
    let after = || row_value();
    let at = || Value::Struct(vec![text("5:7"), Value::Int64(1), Value::Int64(0)]);
    let entry = |key, value| (Value::str(key), value);
    vec![
        ("key", key, Value::Struct(vec![Value::Int64(0)])),
        (
            "envelope of a change",
            versioned(event.clone(), 2, None),
            Value::Struct(vec![Value::Null, after(), source(), at(), text("c"), Value::Int64(3)]),
        ),
        (
            "envelope of a delete",
            event,
            Value::Struct(vec![after(), Value::Null, source(), Value::Null, text("d"), Value::Null]),
        ),
        ("flattened", row(), after()),
        ("optional row that is null", row().optional(true), Value::Null),
        ("null with a default", with_default(optional(Kind::String), text("x")), Value::Null),
        (
            "map in order",
            Schema::new(map()),
            Value::Map(vec![entry("a", text("1")), entry("b", Value::Null)]),
        ),
        (
            "maps",
            structure(
                "m.M",
                vec![("a", optional(map())), ("b", Schema::new(map())), ("c", Schema::new(map()))],
            ),
            Value::Struct(vec![
                Value::Null,
                Value::Map(vec![entry("", text(""))]),
                Value::Map(vec![entry("x", text(""))]),
            ]),
        ),
        ("no name", unnamed(), Value::Struct(vec![Value::Struct(vec![Value::Int32(1)]), Value::Null])),
        (
            "bad field",
            structure("a.B", vec![("a-b", Schema::new(Kind::Int32))]),
            Value::Struct(vec![Value::Int32(1)]),
        ),
        (
            "bad name",
            structure("a.1.B-é", vec![("_a", Schema::new(Kind::Int32))]),
            Value::Struct(vec![Value::Int32(1)]),
        ),
        (
            "field named as its record",
            structure(
                "a.B",
                vec![("block", structure("event.block", vec![("x", Schema::new(Kind::Int32))]))],
            ),
            Value::Struct(vec![Value::Struct(vec![Value::Int32(1)])]),
        ),
        (
            "package named as its record",
            structure("Envelope.Value.Envelope", vec![("v", structure("x.Value", vec![]))]),
            Value::Struct(vec![Value::Struct(vec![])]),
        ),
        (
            "fields named by underscores",
            structure("a.B", vec![("_", optional(Kind::Boolean)), ("__", Schema::new(Kind::Boolean))]),
            Value::Struct(vec![Value::Bool(true), Value::Bool(true)]),
        ),
        (
            "null in a list",
            structure("a.B", vec![("l", Schema::new(strings()))]),
            Value::Struct(vec![Value::Array(vec![text("a"), Value::Null])]),
        ),
        (
            "list of lists",
            structure("a.B", vec![("l", Schema::new(Kind::Array(Arc::new(Schema::new(strings())))))]),
            Value::Struct(vec![Value::Array(vec![Value::Array(vec![text("a")])])]),
        ),
    ]
}

fn snapshot_marker() -> Schema {
    let schema = Schema::named(Kind::String, "io.debezium.data.Enum").with_parameter(
        "allowed",
        "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental",
    );
    with_default(schema.optional(true), Value::str("false"))
}

fn transaction() -> Schema {
    let number = || Schema::new(Kind::Int64);
    let fields = vec![
        ("id", Schema::new(Kind::String)),
        ("total_order", number()),
        ("data_collection_order", number()),
    ];
    structure("event.block", fields)
}

fn unnamed() -> Schema {
    let inner = || Schema::new(Kind::Struct(vec![Field::new("x", Arc::new(Schema::new(Kind::Int32)))]));
    let fields = vec![Field::new("a", Arc::new(inner())), Field::new("b", Arc::new(inner().optional(true)))];
    Schema::new(Kind::Struct(fields))
}

/// Returns the schema of a row with a column of each type.
fn row() -> Schema {
    let connect = |kind, name: &'static str| Schema::named(kind, name);
    let parameter = |schema: Schema| {
        schema
            .with_parameter("__debezium.source.column.type", "VARCHAR")
            .with_parameter("__debezium.source.column.length", 20)
            .with_parameter("__debezium.source.column.name", "name")
    };
    structure(
        "srv.public.orders.Value",
        vec![
            ("id", with_default(Schema::new(Kind::Int64), Value::Int64(0))),
            ("small", with_default(optional(Kind::Int16), Value::Int16(3))),
            ("name", parameter(optional(Kind::String))),
            ("price", decimal(2, Some(10)).optional(true)),
            ("tax", variable().optional(true)),
            ("day", connect(Kind::Int32, "org.apache.kafka.connect.data.Date").optional(true)),
            ("time", connect(Kind::Int32, "org.apache.kafka.connect.data.Time").optional(true)),
            ("at", connect(Kind::Int64, "org.apache.kafka.connect.data.Timestamp").optional(true)),
            ("micros", connect(Kind::Int64, "io.debezium.time.MicroTimestamp").optional(true)),
            ("doc", json()),
            ("uuid", connect(Kind::String, "io.debezium.data.Uuid")),
            ("raw", with_default(Schema::new(Kind::Bytes), bytes(&[0, 0xFE]))),
            ("ratio", with_default(Schema::new(Kind::Float64), Value::Float64(0.000_01))),
            ("real", optional(Kind::Float32)),
            ("flag", with_default(Schema::new(Kind::Boolean), Value::Bool(true))),
            ("tags", optional(strings())),
            ("numbers", Schema::new(Kind::Array(Arc::new(Schema::new(Kind::Int32))))),
            ("attributes", optional(map())),
            ("tiny", Schema::new(Kind::Int8)),
        ],
    )
}

fn row_value() -> Value<'static> {
    Value::Struct(vec![
        Value::Int64(-1),
        Value::Int16(0),
        Value::str("é😀\"\u{1}"),
        number("-1.50"),
        Value::Struct(vec![Value::Int32(2), bytes(&[0x7D])]),
        Value::Date(-86_400_000),
        Value::Date(3_723_004),
        Value::Date(-1),
        Value::Int64(1_700_000_000_000_000),
        Value::Null,
        Value::str(""),
        bytes(&[0, 0xFE]),
        Value::Float64(2.5),
        Value::Float32(0.1),
        Value::Bool(false),
        Value::Array(vec![Value::str("a"), Value::str("")]),
        Value::Array(vec![Value::Int32(1), Value::Int32(0), Value::Int32(-3)]),
        Value::Map(vec![(Value::str("k"), Value::str("v"))]),
        Value::Int8(-8),
    ])
}
