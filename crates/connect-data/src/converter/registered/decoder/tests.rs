//! Round trips of what the converters write: compared with `JsonConverter`, which writes the same value without a registry.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value as Json;

use super::super::cases::{change_cases, plain_cases, record_cases, sparse_cases, structure};
use super::super::{Registration, SchemaIds};
use super::*;
use crate::converter::{ConvertError, Converters, Destination, JsonConverter};
use crate::{Kind, Schema, Value};

const AVRO: &str = "io.confluent.connect.avro.AvroConverter";
const PROTOBUF: &str = "io.confluent.connect.protobuf.ProtobufConverter";
const JSON_SCHEMA: &str = "io.confluent.connect.json.JsonSchemaConverter";

/// Returns the schema and the bytes that our converter writes, or `None` if the value is not supported.
fn written(
    class: &str,
    options: &[(&str, &str)],
    schema: &Schema,
    value: &Value<'_>,
) -> Option<(WrittenSchema, Vec<u8>)> {
    let lookup = |key: &str| match key.strip_prefix("value.converter")? {
        "" => Some(class.to_owned()),
        option => {
            let named = options.iter().find(|(name, _)| option.strip_prefix('.') == Some(name));
            named.map(|(_, value)| (*value).to_owned())
        }
    };
    let converter = Converters::parse(&lookup).unwrap().value;
    let (mut ids, mut scratch) = (SchemaIds::default(), Vec::new());
    let schema = Arc::new(schema.clone());
    let mut into = Destination { scratch: &mut scratch, topic: "t", schemas: &mut ids };
    let registration = match converter.convert_shared(&schema, value, &mut into) {
        Err(ConvertError::Unregistered(registration)) => registration,
        Err(ConvertError::Schema(_)) => return None,
        Err(ConvertError::Unsupported(_)) if class == PROTOBUF => return None,
        other => panic!("{other:?}"),
    };
    let Registration { kind, text, .. } = registration.as_ref().clone();
    into.schemas.learn(*registration, SchemaId(7));
    let bytes = converter.convert_shared(&schema, value, &mut into).unwrap();
    Some((WrittenSchema { kind, text }, bytes.resolve(&scratch).unwrap().to_vec()))
}

#[test]
fn parts_without_a_common_type_are_refused() {
    let untyped = || Arc::new(Schema::new(Kind::Untyped).optional(true));
    let list = Schema::new(Kind::Array(untyped()));
    let map = Schema::new(Kind::Map(Arc::new(Schema::new(Kind::String)), untyped()));
    for class in [AVRO, PROTOBUF, JSON_SCHEMA] {
        for (schema, value) in [(&list, Value::Array(Vec::new())), (&map, Value::Map(Vec::new()))] {
            let record = structure("t.Value", vec![("field", schema.clone())]);
            let value = Value::Struct(vec![value]);
            assert!(written(class, &[], &record, &value).is_none(), "{class} {schema:?}");
        }
    }
}

fn read(schema: &WrittenSchema, bytes: &[u8]) -> Json {
    let (id, body) = split(bytes).unwrap();
    assert_eq!(id, SchemaId(7));
    let json = Decoder::new(schema).and_then(|decoder| decoder.json(body));
    let json = json.unwrap_or_else(|error| panic!("{error}: {body:?}\n{}", schema.text));
    serde_json::from_slice(&json)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&json)))
}

/// Returns the value as `JsonConverter` writes it.
fn expected(schema: &Schema, value: &Value<'_>) -> Json {
    let mut out = Vec::new();
    JsonConverter::NUMERIC.write(&mut out, Some(schema), value).unwrap();
    serde_json::from_slice(&out).unwrap()
}

fn cases() -> impl Iterator<Item = (&'static str, Schema, Value<'static>)> {
    let all = plain_cases().into_iter().chain(record_cases()).chain(change_cases());
    all.filter(|(_, _, value)| !value.is_null())
}

#[test]
fn every_kind_of_value_is_read_back() {
    let numeric = [("decimal.format", "NUMERIC")];
    for (class, options) in [(AVRO, &[][..]), (JSON_SCHEMA, &numeric[..])] {
        for (case, schema, value) in cases() {
            let Some((written, bytes)) = written(class, options, &schema, &value) else { continue };
            assert_eq!(read(&written, &bytes), expected(&schema, &value), "{case}: {}", written.text);
        }
    }
}

#[test]
fn sparse_vectors_are_read_back() {
    for (case, schema, value) in sparse_cases() {
        let (written, bytes) = written(AVRO, &[], &schema, &value).unwrap();
        assert_eq!(read(&written, &bytes), expected(&schema, &value), "{case}: {}", written.text);
    }
}

/// Removes what Protobuf does not distinguish: nulls and zeros. A map becomes a list of its entries.
fn told_by_protobuf(value: Json) -> Option<Json> {
    let kept = |entries: serde_json::Map<String, Json>| {
        let kept = entries.into_iter().filter_map(|(name, value)| Some((name, told_by_protobuf(value)?)));
        kept.collect::<serde_json::Map<_, _>>()
    };
    match value {
        Json::Null | Json::Bool(false) => None,
        Json::String(text) => (!text.is_empty()).then_some(Json::String(text)),
        Json::Number(number) => (number.as_f64() != Some(0.0)).then_some(Json::Number(number)),
        Json::Array(items) => {
            let is_entry =
                |item: &Json| item.as_object().is_some_and(|entry| entry.keys().eq(["key", "value"]));
            if !items.is_empty() && items.iter().all(is_entry) {
                let entry = |item: &Json| (item["key"].as_str().unwrap().to_owned(), item["value"].clone());
                return told_by_protobuf(Json::Object(items.iter().map(entry).collect()));
            }
            let items: Vec<_> =
                items.into_iter().map(|item| told_by_protobuf(item).unwrap_or_default()).collect();
            (!items.is_empty()).then_some(Json::Array(items))
        }
        Json::Object(entries) => Some(kept(entries)).filter(|kept| !kept.is_empty()).map(Json::Object),
        other => Some(other),
    }
}

/// An independent implementation reads what ours has written, with the schema that ours has registered.
#[test]
fn protobuf_is_read_back() {
    let mut read_back = 0;
    for option in ["", "optional.for.nullables", "wrapper.for.nullables"] {
        for (case, schema, value) in cases() {
            let Some((written, bytes)) = written(PROTOBUF, &[(option, "true")], &schema, &value) else {
                continue;
            };
            // Confluent's converter names another message than it writes when the package has the message's name, and so ours does.
            if written.text.contains("\npackage Envelope.Value;") {
                let (_, body) = split(&bytes).unwrap();
                assert!(Decoder::new(&written).unwrap().json(body).is_err(), "{case}");
                continue;
            }
            let (found, expected) = (read(&written, &bytes), expected(&schema, &value));
            let (found, expected) = (told_by_protobuf(found), told_by_protobuf(expected));
            assert_eq!(found, expected, "{case} {option}: {}", written.text);
            read_back += 1;
        }
    }
    assert!(read_back > 60, "{read_back}");
}

#[test]
fn a_proto_file_is_read_as_registries_have_it() {
    let text = r#"syntax = "proto3"; package a.b; import "confluent/meta.proto"; import "google/type/date.proto";
        option java_package = "a"; // A comment.
        message First { enum E { A = 0; B = 1 [(x.y) = true]; } }
        message Second { option (confluent.message_meta) = { params: [{ key: "k", value: "v" }] };
            message Inner { map<int32, string> m = 1; First.E e = 2; optional string none = 3; oneof one { uint64 u = 4; bool b = 5; } }
            google.type.Date d = 1; repeated Inner inner = 2; }"#;
    let decoder = Decoder::new(&WrittenSchema { kind: SchemaType::Protobuf, text: text.to_owned() }).unwrap();
    let json = |body: &[u8]| decoder.json(body).map(|json| String::from_utf8(json).unwrap());
    let inner = r#"{"m":{"2":"x"},"e":"B","none":null,"u":7,"b":null}"#;
    let body = [10, 5, 8, 2, 18, 1, b'x', 16, 1, 32, 7];
    // The first message of the second.
    assert_eq!(json(&[&[4, 2, 0][..], &body].concat()).as_deref(), Ok(inner));
    let outer = [&[2, 2, 10, 7, 8, 0xD0, 15, 16, 2, 24, 29, 18, 11][..], &body].concat();
    assert_eq!(json(&outer), Ok(format!(r#"{{"d":11016,"inner":[{inner}]}}"#)));
    for body in [&[][..], &[2], &[2, 9], &[1], &[3, 1], &[0, 0xFF], &[0, 40, 1], &[0xFF; 11]] {
        assert_eq!(json(body), Err(DecodeError::Malformed("PROTOBUF")), "{body:?}");
    }
    for text in ["syntax = \"proto3\"; message A { B b = 1; }", "message", "{}"] {
        let schema = WrittenSchema { kind: SchemaType::Protobuf, text: text.to_owned() };
        assert!(matches!(Decoder::new(&schema), Err(DecodeError::Schema(_))), "{text}");
    }
}

#[test]
fn names_that_only_java_takes_are_read() {
    let schema = r#"{"type":"record","name":"né","namespace":"my-srv.a","fields":[
        {"name":"straße","type":["null",{"type":"fixed","name":"F","size":2}]},
        {"name":"again","type":["null","né"],"default":null},
        {"name":"e","type":{"type":"enum","name":"E","symbols":["a-b"]}},
        {"name":"f","type":"my-srv.a.F"},
        {"name":"m","type":{"type":"map","values":{"type":"fixed","name":"D","size":1,"logicalType":"decimal","scale":1}}}]}"#;
    let schema = WrittenSchema { kind: SchemaType::Avro, text: schema.to_owned() };
    // The map is in two blocks, the second with its length.
    let body = [2, 1, 2, 0, 0, 3, 4, 2, 2, b'k', 0xFF, 1, 6, 2, b'l', 12, 0];
    let json = Decoder::new(&schema).unwrap().json(&body).unwrap();
    assert_eq!(
        String::from_utf8(json).unwrap(),
        r#"{"straße":"AQI=","again":null,"e":"a-b","f":"AwQ=","m":{"k":-0.1,"l":1.2}}"#
    );
}

#[test]
fn what_is_of_another_schema_is_refused() {
    let nothing = r#"{"type":"array","items":"null"}"#;
    let itself = r#"{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}"#;
    let cases: [(&str, &[u8]); 10] = [
        ("\"int\"", &[]),
        ("\"boolean\"", &[2]),
        ("\"int\"", &[2, 2]),
        ("\"int\"", &[0xFF; 11]),
        ("\"string\"", &[4, b'a']),
        ("\"string\"", &[2, 0xFF]),
        (r#"["null"]"#, &[2]),
        // More values than memory has room for, and deeper than the stack.
        (nothing, &[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0]),
        (itself, &[]),
        ("\"double\"", &[1, 2, 3]),
    ];
    for (text, body) in cases {
        let schema = WrittenSchema { kind: SchemaType::Avro, text: text.to_owned() };
        let refused = Decoder::new(&schema).unwrap().json(body);
        assert_eq!(refused, Err(DecodeError::Malformed("AVRO")), "{text} {body:?}");
    }
}

#[test]
fn a_schema_that_is_none_is_refused() {
    let deep = format!("{}\"int\"{}", "[".repeat(200), "]".repeat(200));
    for text in [
        "",
        "7",
        "null",
        "\"nothing\"",
        r#"{"type":"record"}"#,
        r#"{"type":"record","name":"r"}"#,
        r#"{"type":"record","name":"r","fields":[{"type":"int"}]}"#,
        r#"{"type":"enum","name":"e"}"#,
        r#"{"type":"enum","name":"e","symbols":[1,"a"]}"#,
        r#"{"type":"fixed","name":"f"}"#,
        &deep,
    ] {
        let schema = WrittenSchema { kind: SchemaType::Avro, text: text.to_owned() };
        assert!(matches!(Decoder::new(&schema), Err(DecodeError::Schema(_))), "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_json((schema, value) in super::super::avro::any_case()) {
        prop_assume!(!value.is_null());
        let (schema_text, bytes) = written(AVRO, &[], &schema, &value).unwrap();
        prop_assert_eq!(read(&schema_text, &bytes), expected(&schema, &value));
    }

    #[test]
    fn what_is_written_in_protobuf_is_read_as_json(
        (schema, value) in super::super::avro::any_case(), option in 0usize..3
    ) {
        let option = ["", "optional.for.nullables", "wrapper.for.nullables"][option];
        let field = crate::Field::new("f", Arc::new(schema));
        let schema = Schema::new(Kind::Struct(vec![field]));
        let value = Value::Struct(vec![value]);
        if let Some((text, bytes)) = written(PROTOBUF, &[(option, "true")], &schema, &value) {
            let (found, expected) = (read(&text, &bytes), expected(&schema, &value));
            prop_assert_eq!(told_by_protobuf(found), told_by_protobuf(expected), "{}", text.text);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        (schema, value) in super::super::avro::any_case(), body: Vec<u8>, cut: prop::sample::Index
    ) {
        prop_assume!(!value.is_null());
        let (schema, bytes) = written(AVRO, &[], &schema, &value).unwrap();
        let decoder = Decoder::new(&schema).unwrap();
        drop(decoder.json(&body));
        let kept = cut.index(bytes.len());
        drop(split(&bytes[..kept]).map(|(_, body)| decoder.json(body)));
    }

    #[test]
    fn any_schema_is_read_or_refused(
        text in r#"(syntax = .proto3.; message a [{] int32 a = [0-9]; [}])?[{\[]("(type|name|fields|items|size)":("(record|array|fixed|int)"|[0-9]{1,3}|[{\[]),?){0,6}[}\]]{0,3}"#
    ) {
        for kind in [SchemaType::Avro, SchemaType::Json, SchemaType::Protobuf] {
            drop(Decoder::new(&WrittenSchema { kind, text: text.clone() }));
        }
    }
}
