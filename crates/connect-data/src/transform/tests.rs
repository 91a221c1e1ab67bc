//! The transforms, by the cases of `tests/cases/transforms`.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::chain::Chain;
use super::*;
use crate::source_record::{Datum, DatumHeader};
use crate::trace::{Sampler, Seed, SpanLog, Tracer};
use crate::{Decimal, Field, Kind, OptionReader, Schema, Value};

/// Every file of cases.
const CASES: &[(&str, &str)] = &[
    ("topics", include_str!("../../../../tests/cases/transforms/topics.json")),
    ("keys", include_str!("../../../../tests/cases/transforms/keys.json")),
    ("fields", include_str!("../../../../tests/cases/transforms/fields.json")),
    ("shapes", include_str!("../../../../tests/cases/transforms/shapes.json")),
    ("headers", include_str!("../../../../tests/cases/transforms/headers.json")),
    ("times", include_str!("../../../../tests/cases/transforms/times.json")),
    ("expressions", include_str!("../../../../tests/cases/transforms/expressions.json")),
    ("events", include_str!("../../../../tests/cases/transforms/events.json")),
    ("unwrap", include_str!("../../../../tests/cases/transforms/unwrap.json")),
    ("tracing", include_str!("../../../../tests/cases/transforms/tracing.json")),
];

const SCHEMAS: &str = include_str!("../../../../tests/cases/transforms/schemas.json");

#[test]
fn records_become_what_the_java_classes_make_of_them() {
    let mut run = 0;
    for (file, text) in CASES {
        let cases: Vec<Json> = serde_json::from_str(text).expect(file);
        for case in &cases {
            let about = format!("{file}: {}", case["about"]);
            let mut chain = read(&case["options"]).unwrap_or_else(|errors| panic!("{about}: {errors:?}"));
            chain.trace(&Tracer::new(Sampler::default(), Seed([7; 16]), Some(SpanLog::new(9, 9, || {}))));
            let mut schemas = Schemas::new();
            for record in case["records"].as_array().unwrap() {
                check(&about, &chain, &mut schemas, record);
                run += 1;
            }
        }
    }
    assert!(run >= CASES.len(), "only {run} records were tried");
}

fn check(about: &str, chain: &Chain, schemas: &mut Schemas, case: &Json) {
    let (input, expected) = (schemas.record(&case["in"]), &case["out"]);
    let outcome = chain.apply(input.clone());
    if let Some(error) = expected["error"].as_str() {
        let message = outcome.expect_err(about).to_string();
        assert!(message.contains(error), "{about}: {message}");
        return;
    }
    let made = outcome.unwrap_or_else(|error| panic!("{about}: {error}"));
    let expected = (!expected.is_null()).then(|| schemas.record(expected));
    assert_eq!(made, expected, "{about}");
    if let (Some(made), Ok(Some(again))) = (made, chain.apply(input.clone())) {
        for (first, second) in [(made.key, again.key), (made.value, again.value)] {
            let (Some(first), Some(second)) = (first.schema, second.schema) else { continue };
            assert!(Arc::ptr_eq(&first, &second), "{about}: a schema is made for each record");
        }
    }
}

#[test]
fn what_cannot_be_used_is_refused_with_everything_that_is_wrong() {
    type Case = (&'static [(&'static str, &'static str)], &'static [&'static str]);
    let cases: &[Case] = &[
        (&[], &[]),
        (&[("transforms", "a")], &["transforms.a.type"]),
        (
            &[("transforms", "a"), ("transforms.a.type", "com.example.Mine")],
            &["there is no such transform here"],
        ),
        (
            &[("transforms", "a"), ("transforms.a.type", "io.debezium.transforms.Filter")],
            &["outboxd.transforms.FilterByExpression"],
        ),
        (
            &[
                ("transforms", "a,b,c"),
                ("transforms.a.type", "outboxd.transforms.FilterByExpression"),
                ("transforms.a.condition", "value.op = 'u'"),
                ("transforms.b.type", "outboxd.transforms.FilterByExpression"),
                ("transforms.b.condition", "valeu.op == 'u' && topic == 't'"),
                ("transforms.c.type", "outboxd.transforms.RouteByExpression"),
                ("transforms.c.topic.expression", "'t'"),
            ],
            &[
                "it is not CEL",
                "there is no \"valeu\" here; it may look at topic, key, value, header",
                "it looks at none of topic, key, value, header",
            ],
        ),
        (
            &[("transforms", "a"), ("transforms.a.type", "org.apache.kafka.connect.transforms.RegexRouter")],
            &["transforms.a.regex", "transforms.a.replacement"],
        ),
        (
            &[
                ("transforms", "a"),
                ("transforms.a.type", "org.apache.kafka.connect.transforms.Filter"),
                ("transforms.a.predicate", "p"),
            ],
            &["transforms.a.predicate=p: `predicates` does not name it"],
        ),
        (
            &[("predicates", "p,q"), ("predicates.p.type", "org.example.P")],
            &["predicates.p.type=org.example.P: there is no such predicate", "predicates.q.type"],
        ),
        (
            &[
                ("transforms", "a,b"),
                ("transforms.a.type", "io.debezium.transforms.ExtractNewRecordState"),
                ("transforms.a.delete.tombstone.handling.mode", "keep"),
                ("transforms.b.type", "org.apache.kafka.connect.transforms.ValueToKey"),
            ],
            &["transforms.a.delete.tombstone.handling.mode=keep: it must be one of", "transforms.b.fields"],
        ),
        (
            &[
                ("transforms", "a,b,c,d,e,f"),
                ("transforms.a.type", "io.debezium.transforms.GeometryFormatTransformer"),
                ("transforms.a.format", "wkt"),
                ("transforms.b.type", "io.debezium.transforms.SwapGeometryCoordinates"),
                ("transforms.b.srids", "4326,WGS84"),
                ("transforms.c.type", "io.debezium.transforms.SwapGeometryCoordinates"),
                ("transforms.c.srids", " "),
                ("transforms.d.type", "io.debezium.transforms.ExtractSchemaToNewRecord"),
                ("transforms.d.schema.name.adjustment.mode", "json"),
                ("transforms.e.type", "io.debezium.transforms.SchemaChangeEventFilter"),
                ("transforms.f.type", "io.debezium.transforms.SchemaChangeEventFilter"),
                ("transforms.f.schema.change.event.exclude.list", "DROP,alter"),
            ],
            &[
                "transforms.a.format=wkt: it must be one of wkb, ewkb",
                "transforms.b.srids=4326,WGS84: it must be a list of numbers such as 4326,3857",
                "transforms.c.srids= : it must be a list of numbers",
                "transforms.d.schema.name.adjustment.mode=json: it must be one of",
                "transforms.e.schema.change.event.exclude.list",
                "it must be a list of CREATE, ALTER, DROP, TRUNCATE, DATABASE, in capitals",
            ],
        ),
    ];
    for (options, expected) in cases {
        let json = options.iter().map(|(key, value)| ((*key).to_owned(), Json::from(*value))).collect();
        let errors = read(&Json::Object(json)).err().unwrap_or_default();
        assert_eq!(errors.len(), expected.len(), "{errors:?}");
        for (error, expected) in errors.iter().zip(*expected) {
            assert!(error.contains(expected), "{error}");
        }
    }
}

#[test]
fn the_event_router_has_a_place_in_the_chain() {
    let options = serde_json::json!({
        "transforms": "short,router,day", "predicates": "outbox",
        "predicates.outbox.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.outbox.pattern": "public.outbox",
        "transforms.short.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.short.regex": "srv\\.(.*)", "transforms.short.replacement": "$1",
        "transforms.router.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.router.predicate": "outbox",
        "transforms.day.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.day.regex": "(.*)", "transforms.day.replacement": "$1-day",
    });
    let chain = read(&options).unwrap();
    let record = |topic: &'static str| Schemas::new().record(&serde_json::json!({ "topic": topic }));
    assert_eq!((chain.event_routers().next(), chain.begins_with_routers()), (Some("router"), false));
    let topics = [("srv.public.outbox", "routed-day"), ("srv.public.orders", "public.orders-day")];
    for (topic, expected) in topics {
        let mut route = |_: &str, record| {
            Ok::<_, error::TransformError>(Some(SourceRecord { topic: "routed".into(), ..record }))
        };
        let behind = chain.apply_with(record(topic), &mut route).unwrap().unwrap();
        assert_eq!(behind.topic, expected);
    }
}

#[test]
fn timescaledbs_catalog_is_read_where_the_tables_are() {
    let refused = |option: &str, value: &str| {
        let options = serde_json::json!({
            "database.hostname": "db", "database.dbname": "shop", "transforms": "ts",
            "transforms.ts.type": "io.debezium.connector.postgresql.transforms.timescaledb.TimescaleDb",
            (format!("transforms.ts.database.{option}")): value,
        });
        read(&options).err().unwrap_or_default()
    };
    for (option, value) in
        [("hostname", "db"), ("port", "5432"), ("dbname", "shop"), ("dbname", ""), ("user", "other")]
    {
        assert_eq!(refused(option, value), [""; 0], "{option}={value}");
    }
    for (option, value, fix) in [
        ("hostname", "other", "write \"db\""),
        ("port", "5433", "write \"5432\""),
        ("dbname", "other", "write \"shop\""),
    ] {
        let told = refused(option, value);
        let [told] = told.as_slice() else { panic!("{told:?}") };
        assert!(told.contains(&format!("transforms.ts.database.{option}")) && told.contains(fix), "{told}");
    }
}

fn read(options: &Json) -> Result<Chain, Vec<String>> {
    let lookup = |key: &str| options[key].as_str().map(str::to_owned);
    let mut reader = OptionReader::new(&lookup);
    let chain = Chain::read(&mut reader);
    let errors: Vec<String> = reader.into_errors().iter().map(ToString::to_string).collect();
    if errors.is_empty() { Ok(chain.expect("a refusal is kept")) } else { Err(errors) }
}

/// The schemas of a case. One that has a name in `schemas.json` is the same `Arc` wherever it is named.
struct Schemas {
    texts: Json,
    named: HashMap<String, Arc<Schema>>,
}

impl Schemas {
    fn new() -> Self {
        Self { texts: serde_json::from_str(SCHEMAS).unwrap(), named: HashMap::new() }
    }

    fn record(&mut self, json: &Json) -> SourceRecord<'static> {
        let headers = json["headers"].as_array().cloned().unwrap_or_default();
        SourceRecord {
            topic: json["topic"].as_str().unwrap_or("t").to_owned().into(),
            partition: json["partition"].as_i64().map(|partition| i32::try_from(partition).unwrap()),
            timestamp_ms: json["timestamp"].as_i64(),
            key: self.datum(&json["key"]),
            value: self.datum(&json["value"]),
            headers: headers
                .iter()
                .map(|pair| DatumHeader {
                    name: pair[0].as_str().unwrap().to_owned().into(),
                    datum: self.datum(&pair[1]),
                })
                .collect(),
        }
    }

    /// Reads `[schema, value]`.
    fn datum(&mut self, json: &Json) -> Datum<'static> {
        if json.is_null() {
            return Datum::NULL;
        }
        let schema = (!json[0].is_null()).then(|| self.schema(&json[0]));
        let value = value(schema.as_deref(), &json[1]);
        Datum { schema, value }
    }

    /// Reads `"int32"`, `"string? its.name"`, `"@name"` of `schemas.json`, or an object with `type`, `name`, `version`,
    /// `fields`, `items`, `default`.
    fn schema(&mut self, json: &Json) -> Arc<Schema> {
        if let Some(name) = json.as_str().and_then(|text| text.strip_prefix('@')) {
            if let Some(known) = self.named.get(name) {
                return Arc::clone(known);
            }
            let text = self.texts[name].clone();
            assert!(!text.is_null(), "there is no schema {name}");
            let schema = self.schema(&text);
            self.named.insert(name.to_owned(), Arc::clone(&schema));
            return schema;
        }
        let object = if json.is_string() { serde_json::json!({ "type": json }) } else { json.clone() };
        let (kind, name) = object["type"].as_str().unwrap().split_once(' ').map_or_else(
            || (object["type"].as_str().unwrap(), object["name"].as_str()),
            |(kind, name)| (kind, Some(name)),
        );
        let (kind, optional) = kind.strip_suffix('?').map_or((kind, false), |kind| (kind, true));
        let mut schema = Schema::new(self.kind(kind, &object)).optional(optional);
        schema.name = name.map(|name| name.to_owned().into());
        schema.version = object["version"].as_i64().map(|version| i32::try_from(version).unwrap());
        if let Some(scale) = object["scale"].as_str() {
            schema.parameters.push(("scale", scale.to_owned()));
        }
        if let Some(default) = object.get("default") {
            schema.default = Some(value(Some(&schema), default));
        }
        Arc::new(schema)
    }

    fn kind(&mut self, kind: &str, object: &Json) -> Kind {
        match kind {
            "boolean" => Kind::Boolean,
            "int8" => Kind::Int8,
            "int16" => Kind::Int16,
            "int32" => Kind::Int32,
            "int64" => Kind::Int64,
            "float32" => Kind::Float32,
            "float64" => Kind::Float64,
            "string" => Kind::String,
            "bytes" => Kind::Bytes,
            "untyped" => Kind::Untyped,
            "array" => Kind::Array(self.schema(&object["items"])),
            "map" => Kind::Map(self.schema(&object["keys"]), self.schema(&object["items"])),
            "struct" => {
                let fields = object["fields"].as_object().unwrap();
                Kind::Struct(
                    fields.iter().map(|(name, field)| Field::new(name, self.schema(field))).collect(),
                )
            }
            other => panic!("there is no kind {other}"),
        }
    }
}

/// Reads plain JSON, and `{"date": millis}`, `{"decimal": "1.50"}`, `{"hex": "00ff"}`.
fn value(schema: Option<&Schema>, json: &Json) -> Value<'static> {
    if json.is_null() {
        return Value::Null;
    }
    if let Some(millis) = json["date"].as_i64() {
        return Value::Date(millis);
    }
    if let Some(text) = json["decimal"].as_str() {
        return Value::Decimal(Decimal::parse(text).unwrap());
    }
    if let Some(digits) = json["hex"].as_str() {
        let byte = |at| u8::from_str_radix(digits.get(at..at + 2).unwrap(), 16).unwrap();
        return Value::Bytes((0..digits.len()).step_by(2).map(byte).collect::<Vec<_>>().into());
    }
    let Some(schema) = schema else {
        let entry = |(key, item): (&String, &Json)| (Value::Str(key.clone().into()), value(None, item));
        return match json.as_object() {
            Some(entries) => Value::Map(entries.iter().map(entry).collect()),
            None => Value::Str(json.as_str().unwrap().to_owned().into()),
        };
    };
    let number = || json.as_i64().unwrap_or_else(|| panic!("{json} is no number"));
    match &schema.kind {
        Kind::Boolean => Value::Bool(json.as_bool().unwrap()),
        Kind::Int8 => Value::Int8(number().try_into().unwrap()),
        Kind::Int16 => Value::Int16(number().try_into().unwrap()),
        Kind::Int32 => Value::Int32(number().try_into().unwrap()),
        Kind::Int64 => Value::Int64(number()),
        Kind::Float32 => Value::Float32(json.to_string().parse().unwrap()),
        Kind::Float64 => Value::Float64(json.to_string().parse().unwrap()),
        Kind::String | Kind::Bytes => Value::Str(json.as_str().unwrap().to_owned().into()),
        Kind::Array(item) => {
            Value::Array(json.as_array().unwrap().iter().map(|json| value(Some(item), json)).collect())
        }
        Kind::Map(keys, items) => {
            let entries = json.as_object().unwrap().iter();
            let entry = |(key, item): (&String, &Json)| {
                (value(Some(keys), &Json::from(key.as_str())), value(Some(items), item))
            };
            Value::Map(entries.map(entry).collect())
        }
        Kind::Untyped => value(None, json),
        Kind::Struct(fields) => {
            let known = |name: &String| fields.iter().any(|field| field.name == *name);
            assert!(json.as_object().unwrap().keys().all(known), "{json} has other fields");
            Value::Struct(fields.iter().map(|field| value(Some(&field.schema), &json[&field.name])).collect())
        }
    }
}
