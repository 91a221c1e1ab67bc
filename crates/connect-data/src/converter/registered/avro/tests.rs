//! Schemas and bodies against what the Java converter was seen to write.

use std::borrow::Cow;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::cases::*;
use super::super::form::Form;
use super::super::subject::SubjectNameStrategy;
use super::super::{PREFIX_BYTES, RegisteredConverter, SchemaId, SchemaIds, Side};
use super::*;
use crate::Field;
use crate::converter::{Destination, Encoded};

/// Recorded by `tests/golden/avro/Converter.java`: the case, the schema's text, the body in hex.
const GOLDEN: &str = include_str!("../../../../../../tests/golden/avro/converter.tsv");

const METADATA: TextOptions = TextOptions { metadata: true, scrub: false, lone_records: false };

const WRITER: Writer = Writer { ignore_defaults: false };

fn golden(case: &str) -> (String, Vec<u8>) {
    let line =
        GOLDEN.lines().find(|line| line.split('\t').next() == Some(case)).unwrap_or_else(|| panic!("{case}"));
    let mut columns = line.split('\t').skip(1);
    let schema = columns.next().unwrap().to_owned();
    let hex = columns.next().unwrap().as_bytes();
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16).unwrap()).unwrap();
    (schema, hex.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect())
}

fn text_of(schema: Option<&Schema>, options: TextOptions) -> Result<String, SchemaError> {
    text(schema, options).map(|text| text.text)
}

#[test]
fn schemas_and_bodies_are_those_of_the_java_converter() {
    let cases = plain_cases().into_iter().chain(record_cases());
    for (case, schema, value) in cases {
        let (text, body) = golden(case);
        assert_eq!(text_of(Some(&schema), METADATA).as_ref(), Ok(&text), "{case}");
        let mut out = Vec::new();
        WRITER.value(&mut out, &schema, &value).unwrap();
        assert_eq!(out, body, "{case}");
    }
}

#[test]
fn without_metadata_only_the_form_is_left() {
    let bare = TextOptions { metadata: false, scrub: false, lone_records: false };
    let (_, envelope, _) = record_cases().into_iter().find(|(case, ..)| *case == "envelope").unwrap();
    assert_eq!(text_of(Some(&envelope), bare).unwrap(), golden("envelope bare").0);
}

#[test]
fn maps_come_in_the_order_of_a_hash_map() {
    let texts = || Arc::new(Schema::new(Kind::String));
    let entries = [("type", "path"), ("closed", "true")];
    let path = Value::Map(entries.map(|(key, value)| (Value::str(key), Value::str(value))).into());
    let mut out = Vec::new();
    WRITER.value(&mut out, &Schema::new(Kind::Map(texts(), texts())), &path).unwrap();
    assert_eq!(out, golden("map of a path").1);
}

#[test]
fn maps_with_numbers_as_keys_are_lists_of_entries() {
    for (case, schema, value) in sparse_cases() {
        let (text, body) = golden(case);
        assert_eq!(text_of(Some(&schema), METADATA).as_ref(), Ok(&text), "{case}");
        let mut out = Vec::new();
        WRITER.value(&mut out, &schema, &value).unwrap();
        assert_eq!(out, body, "{case}");
    }
}

#[test]
fn values_without_a_schema_are_anything() {
    let all = Value::Array(vec![
        Value::Bool(true),
        Value::Int8(1),
        Value::Int16(-2),
        Value::Int32(3),
        Value::Int64(4),
        Value::Float32(0.5),
        Value::Float64(-0.5),
        Value::str("x"),
        Value::Null,
    ]);
    let entries = [("b", all), ("a", Value::Map(vec![])), ("c", Value::Array(vec![]))];
    let map = Value::Map(entries.map(|(key, value)| (Value::str(key), value)).into());
    for (case, value) in [("no schema", Value::str("[]")), ("map without schema", map)] {
        let (schema, body) = golden(case);
        assert_eq!(text_of(None, METADATA), Ok(schema));
        let mut out = Vec::new();
        anything::write(&mut out, &value).unwrap();
        assert_eq!(out, body, "{case}");
    }
    let refused = anything::write(&mut Vec::new(), &bytes(&[1])).unwrap_err();
    assert_eq!(refused.to_string(), "AvroConverter cannot write a value without a schema");
}

#[test]
fn a_record_with_the_default_nan_is_one_record_however_often_it_stands() {
    let row =
        || structure("t.Value", vec![("f", with_default(optional(Kind::Float32), Value::Float32(f32::NAN)))]);
    let envelope =
        structure("t.Envelope", vec![("before", row().optional(true)), ("after", row().optional(true))]);
    assert_eq!(row(), row());
    let text = text_of(Some(&envelope), METADATA).unwrap();
    assert_eq!(text.matches("\"name\":\"Value\"").count(), 1, "{text}");
}

#[test]
fn what_avro_cannot_have_is_refused() {
    let inner = |field| structure("p.x", vec![(field, Schema::new(Kind::Int32))]).optional(true);
    let two = structure("e.Value", vec![("p", inner("q")), ("r", inner("s"))]);
    assert_eq!(text_of(Some(&two), METADATA), Err(SchemaError::Redefined("p.x".into())));
    let hyphen = structure("srv.Order-Item.Value-1", vec![]);
    assert!(matches!(text_of(Some(&hyphen), METADATA), Err(SchemaError::Name(_))));
    let scrubbed = text_of(Some(&hyphen), TextOptions { metadata: false, scrub: true, lone_records: false });
    let expected = r#"{"type":"record","name":"Value_1","namespace":"srv.Order_Item","fields":[]}"#;
    assert_eq!(scrubbed.as_deref(), Ok(expected));
    let numbers = |keys| Schema::new(Kind::Map(Schema::new(keys).into(), Schema::new(Kind::Float64).into()));
    let two = structure("e.Value", vec![("s", numbers(Kind::Int16)), ("l", numbers(Kind::Int64))]);
    let entry = "io.confluent.connect.avro.MapEntry".to_owned();
    assert_eq!(text_of(Some(&two), METADATA), Err(SchemaError::Redefined(entry)));
}

#[test]
fn defaults_stand_in_the_fields_as_java_writes_them() {
    let fields = vec![
        ("i16", with_default(optional(Kind::Int16), Value::Int16(3))),
        ("f", with_default(optional(Kind::Float32), Value::Float32(0.1))),
        ("d", with_default(Schema::new(Kind::Float64), Value::Float64(1e21))),
        ("l", with_default(Schema::new(Kind::Int64), Value::Int64(9_007_199_254_740_993))),
        (
            "u",
            with_default(
                Schema::named(Kind::String, "io.debezium.data.Uuid"),
                Value::str("00000000-0000-0000-0000-000000000000"),
            ),
        ),
        ("bytes", with_default(optional(Kind::Bytes), bytes(&[0, 34, 92, 0x7F, 0x80, 0xFE]))),
        ("dec", with_default(decimal(2, Some(10)).optional(true), number("1.28"))),
        ("arr", with_default(optional(strings()), Value::Array(vec![Value::str("a"), Value::Null]))),
        (
            "map",
            // The recorded map was written in the order of insertion.
            with_default(
                optional(map()),
                Value::Map(vec![(Value::str("b"), Value::str("1")), (Value::str("a"), Value::Null)]),
            ),
        ),
        ("text", with_default(optional(Kind::String), Value::str("é😀\"\u{1}/"))),
        ("nan", with_default(optional(Kind::Float64), Value::Float64(f64::NAN))),
    ];
    let text = text_of(Some(&structure("srv.Value", fields)), METADATA).unwrap();
    let (golden, _) = golden("defaults in fields");
    let shared = text.strip_suffix("],\"connect.name\":\"srv.Value\"}").unwrap();
    assert!(golden.starts_with(shared), "{shared}\n{golden}");
}

fn converter(flavor: Flavor) -> RegisteredConverter {
    RegisteredConverter {
        key: "value.converter".into(),
        flavor,
        side: Side::Value,
        subject: SubjectNameStrategy::Topic,
        ids_max: 10,
        form: Form::Avro(
            flavor,
            TextOptions { lone_records: flavor == Flavor::Apicurio, ..METADATA },
            WRITER,
        ),
    }
}

#[test]
fn a_row_is_converted_once_its_schema_has_an_id() {
    let (schema, value) = (optional(Kind::String), Value::str("a"));
    let (mut scratch, mut schemas) = (b"before".to_vec(), SchemaIds::default());
    let mut convert = |schemas: &mut SchemaIds| {
        let mut into = Destination { scratch: &mut scratch, topic: "orders", schemas };
        let encoded = converter(Flavor::Confluent).convert(Some(&schema), &value, &mut into)?;
        Ok(encoded.resolve(&scratch).map(<[u8]>::to_vec))
    };
    let Err(ConvertError::Unregistered(registration)) = convert(&mut schemas) else { panic!("it has no id") };
    assert_eq!(
        (registration.subject.as_str(), registration.text.as_str()),
        ("orders-value", r#"["null","string"]"#)
    );
    schemas.learn(*registration, SchemaId(258));
    assert_eq!(convert(&mut schemas), Ok(Some(vec![0, 0, 0, 1, 2, 2, 2, b'a'])));
}

#[test]
fn null_needs_no_schema() {
    let mut into =
        Destination { scratch: &mut Vec::new(), topic: "orders", schemas: &mut SchemaIds::default() };
    let converter = converter(Flavor::Confluent);
    let schema = optional(Kind::String);
    assert_eq!(converter.convert(Some(&schema), &Value::Null, &mut into), Ok(Encoded::Null));
    assert_eq!(converter.convert(None, &Value::Null, &mut into), Ok(Encoded::Null));
    let required = Schema::new(Kind::String);
    assert_eq!(converter.convert(Some(&required), &Value::Null, &mut into), Err(ConvertError::RequiredNull));
}

/// Returns the registered schema and the body.
fn converted(flavor: Flavor, schema: &Schema, value: &Value<'_>) -> (String, Vec<u8>) {
    let (mut scratch, mut schemas, mut text) = (Vec::new(), SchemaIds::default(), String::new());
    for _ in 0..2 {
        let mut into = Destination { scratch: &mut scratch, topic: "orders", schemas: &mut schemas };
        match converter(flavor).convert(Some(schema), value, &mut into) {
            Err(ConvertError::Unregistered(registration)) => {
                text.clone_from(&registration.text);
                schemas.learn(*registration, SchemaId(1));
            }
            encoded => return (text, encoded.unwrap().resolve(&scratch).unwrap()[PREFIX_BYTES..].to_vec()),
        }
    }
    panic!("the id was not learnt")
}

#[test]
fn only_confluent_leaves_the_length_of_required_bytes_out() {
    let body = |flavor, schema: &Schema| converted(flavor, schema, &bytes(&[7, 8])).1;
    assert_eq!(body(Flavor::Confluent, &Schema::new(Kind::Bytes)), [7, 8]);
    assert_eq!(body(Flavor::Apicurio, &Schema::new(Kind::Bytes)), [4, 7, 8]);
    assert_eq!(body(Flavor::Confluent, &optional(Kind::Bytes)), [2, 4, 7, 8]);
}

#[test]
fn only_apicurio_takes_a_record_out_of_its_union() {
    let (_, schema, value) = record_cases().into_iter().find(|(case, ..)| *case == "expanded").unwrap();
    let (union, body) = golden("expanded");
    assert_eq!(converted(Flavor::Confluent, &schema, &value), (union.clone(), body.clone()));
    let record = union.strip_prefix("[\"null\",").and_then(|rest| rest.strip_suffix(']')).unwrap();
    assert_eq!(converted(Flavor::Apicurio, &schema, &value), (record.to_owned(), body[1..].to_vec()));
}

/// Scalars, and all that can be made of them, with a value each.
pub(in super::super) fn any_case() -> impl Strategy<Value = (Schema, Value<'static>)> {
    let scalar = prop_oneof![
        any::<bool>().prop_map(|flag| (Schema::new(Kind::Boolean), Value::Bool(flag))),
        any::<i16>().prop_map(|number| (Schema::new(Kind::Int16), Value::Int16(number))),
        any::<i32>().prop_map(|number| (Schema::new(Kind::Int32), Value::Int32(number))),
        any::<i64>().prop_map(|number| (Schema::new(Kind::Int64), Value::Int64(number))),
        any::<f64>().prop_map(|number| (Schema::new(Kind::Float64), Value::Float64(number))),
        any::<String>().prop_map(|text| (Schema::new(Kind::String), Value::Str(Cow::Owned(text)))),
        any::<Vec<u8>>().prop_map(|raw| (Schema::new(Kind::Bytes), Value::Bytes(Cow::Owned(raw)))),
    ];
    scalar.prop_recursive(3, 24, 4, |inner| {
        let nullable = (inner.clone(), any::<bool>()).prop_map(|((schema, value), null)| {
            (schema.optional(true), if null { Value::Null } else { value })
        });
        let list = (inner.clone(), 0usize..4).prop_map(|((schema, value), count)| {
            (Schema::new(Kind::Array(Arc::new(schema))), Value::Array(vec![value; count]))
        });
        let record = proptest::collection::vec(inner, 0..4).prop_map(|members| {
            let (schemas, values): (Vec<_>, Vec<_>) = members.into_iter().unzip();
            let field = |(index, schema)| Field::new(format!("f{index}"), Arc::new(schema));
            let fields: Vec<Field> = schemas.into_iter().enumerate().map(field).collect();
            (Schema::new(Kind::Struct(fields)), Value::Struct(values))
        });
        prop_oneof![nullable, list, record]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back_with_another_implementation((schema, value) in any_case()) {
        let text = text_of(Some(&schema), METADATA).unwrap();
        let parsed = apache_avro::Schema::parse_str(&text).unwrap();
        let mut body = Vec::new();
        WRITER.value(&mut body, &schema, &value).unwrap();
        let mut rest = body.as_slice();
        let reader = apache_avro::reader::datum::GenericDatumReader::builder(&parsed).build().unwrap();
        let read = reader.read_value(&mut rest).unwrap();
        prop_assert!(rest.is_empty());
        prop_assert!(same(&read, &value), "{:?} is not {:?}", read, value);
    }
}

fn same(read: &apache_avro::types::Value, value: &Value<'_>) -> bool {
    use apache_avro::types::Value as Avro;
    match (read, value) {
        (Avro::Union(_, inner), _) => same(inner, value),
        (Avro::Null, Value::Null) => true,
        (Avro::Boolean(read), Value::Bool(flag)) => read == flag,
        (Avro::Int(read), Value::Int16(number)) => *read == i32::from(*number),
        (Avro::Int(read), Value::Int32(number)) => read == number,
        (Avro::Long(read), Value::Int64(number)) => read == number,
        (Avro::Double(read), Value::Float64(number)) => read.to_bits() == number.to_bits(),
        (Avro::String(read), Value::Str(text)) => read == text,
        (Avro::Bytes(read), Value::Bytes(raw)) => read.as_slice() == &**raw,
        (Avro::Array(read), Value::Array(items)) => {
            read.len() == items.len() && read.iter().zip(items).all(|(read, item)| same(read, item))
        }
        (Avro::Record(read), Value::Struct(values)) => {
            read.len() == values.len() && read.iter().zip(values).all(|((_, read), value)| same(read, value))
        }
        _ => false,
    }
}

/// `time.precision.mode=connect` has them as `java.util.Date`.
#[test]
fn dates_are_counted_as_their_schemas_say() {
    for (case, date) in [("connect date", 864_000_000), ("connect time", 1_000), ("connect timestamp", 1_000)]
    {
        let (text, body) = golden(case);
        let (_, mut schema, _) = plain_cases().into_iter().find(|(name, ..)| *name == case).unwrap();
        schema.default = schema.default.map(|_| Value::Date(0));
        assert_eq!(text_of(Some(&schema), METADATA), Ok(text), "{case}");
        let mut out = Vec::new();
        WRITER.value(&mut out, &schema, &Value::Date(date)).unwrap();
        assert_eq!(out, body, "{case}");
    }
}
