//! `CloudEventsConverter`: the envelope of a change as a CloudEvent, in JSON with JSON in it.
//! <https://debezium.io/documentation/reference/stable/integrations/cloudevents.html>

use super::json::{JsonConverter, write_before_payload};
use super::json_text::{NonBmp, write_string};
use super::string::write_scalar;
use super::{ConvertError, Encoded};
use crate::connect::java_date::{calendar_date, clock};
use crate::connect::{Field, Kind, OptionReader, Refused, Schema, Value};

/// How the name of an envelope's schema ends. Nothing else becomes an event.
const ENVELOPE: &str = ".Envelope";

const SOURCE: &str = "source";
const TIME: &str = "ts_ms";

/// What of an envelope is the event's data.
const DATA: [&str; 2] = ["before", "after"];

/// The attributes of the transaction, which stand there also where there is none.
const TRANSACTION: [&str; 3] = ["id", "total_order", "data_collection_order"];

const MILLIS_PER_DAY: i64 = 86_400_000;

/// `CloudEventsConverter`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloudEvents {
    /// `json.*`: how the data is written.
    pub json: JsonConverter,
    /// `extension.attributes.enable` (true): the operation, the source's fields and the transaction's are attributes.
    pub extensions: bool,
}

/// Reads the converter that `key` names as `class`.
///
/// # Errors
/// When it is not for values.
pub(super) fn read(options: &mut OptionReader<'_>, key: &str, class: &str) -> Result<CloudEvents, Refused> {
    if key != "value.converter" {
        let reason = "it makes events of values only: Debezium's makes null of keys, and Kafka Connect has it for no headers";
        return Err(options.refuse(key, class, reason));
    }
    for (name, reason) in [
        ("serializer.type", "events are written as JSON only"),
        ("data.serializer.type", "data are written as JSON only"),
    ] {
        refuse_unless(options, &format!("{key}.{name}"), "json", reason);
    }
    for (name, reason) in [
        ("opentelemetry.tracing.attributes.enable", "headers are not read"),
        ("schema.data.name.source.header.enable", "headers are not read"),
    ] {
        refuse_unless(options, &format!("{key}.{name}"), "false", reason);
    }
    check_metadata_source(options, &format!("{key}.metadata.source"));
    Ok(CloudEvents {
        json: JsonConverter::read(options, &format!("{key}.json")),
        extensions: options.boolean(&format!("{key}.extension.attributes.enable"), true),
    })
}

fn refuse_unless(options: &mut OptionReader<'_>, option: &str, only: &str, reason: &str) {
    if let Some(said) = options.filled(option)
        && !said.trim().eq_ignore_ascii_case(only)
    {
        options.refuse(option, said, format!("{reason}: leave it out, or set {only}"));
    }
}

/// Metadata come from the envelope; the id and the type are made of them.
fn check_metadata_source(options: &mut OptionReader<'_>, option: &str) {
    let Some(said) = options.filled(option) else { return };
    let parts: Vec<&str> = said.split(',').map(str::trim).collect();
    let is_generated = ["id:generate", "type:generate"].iter().all(|part| parts.contains(part));
    if parts.first() != Some(&"value") || !is_generated {
        let reason = "metadata are taken from the value, and id and type are generated: leave it out, or set \
                      value,id:generate,type:generate";
        options.refuse(option, said.clone(), reason);
    }
}

/// A struct with its values.
#[derive(Clone, Copy)]
struct Record<'r, 'v> {
    fields: &'r [Field],
    values: &'r [Value<'v>],
}

impl CloudEvents {
    /// Converts an envelope. All else is Kafka's null.
    pub(super) fn convert<'a>(
        &self,
        schema: Option<&Schema>,
        value: &Value<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Encoded<'a>, ConvertError> {
        let is_envelope = schema.and_then(Schema::name).is_some_and(|name| name.ends_with(ENVELOPE));
        let Some(schema) = schema.filter(|_| is_envelope && !value.is_null()) else {
            return Ok(Encoded::Null);
        };
        let Some(envelope) = Record::of(schema, value) else {
            return Err(ConvertError::NoCloudEvent(SOURCE.to_owned()));
        };
        let start = scratch.len();
        self.write(scratch, envelope)?;
        Ok(Encoded::Scratch(start..scratch.len()))
    }

    fn write(&self, out: &mut Vec<u8>, envelope: Record<'_, '_>) -> Result<(), ConvertError> {
        let source = envelope.record(SOURCE)?;
        let (connector, name) = (source.text("connector")?, source.text("name")?);
        let (lsn, xid, sequence) = (source.text("lsn")?, source.text("txId")?, source.text("sequence")?);
        out.push(b'{');
        attribute(out, "id", &format!("name:{name};lsn:{lsn};txId:{xid};sequence:{sequence}"));
        attribute(out, "source", &format!("/debezium/{connector}/{name}"));
        attribute(out, "specversion", "1.0");
        attribute(out, "type", &format!("io.debezium.connector.{connector}.DataChangeEvent"));
        attribute(out, "time", &source.time()?);
        attribute(out, "datacontenttype", "application/json");
        if self.extensions {
            write_extensions(out, envelope, source)?;
        }
        label(out, "data");
        self.write_data(out, envelope, &connector)?;
        out.push(b'}');
        Ok(())
    }

    fn write_data(
        &self,
        out: &mut Vec<u8>,
        envelope: Record<'_, '_>,
        connector: &str,
    ) -> Result<(), ConvertError> {
        if self.json.schemas {
            let mut data = Vec::with_capacity(DATA.len());
            for name in DATA {
                data.push(envelope.field(name)?.0.clone());
            }
            let name = format!("io.debezium.connector.{connector}.Data");
            let schema = Schema { name: Some(name.into()), ..Schema::new(Kind::Struct(data)) };
            write_before_payload(out, self.json, Some(&schema));
        }
        out.push(b'{');
        for name in DATA {
            let (field, value) = envelope.field(name)?;
            label(out, &field.name);
            self.json.write(out, Some(&field.schema), value)?;
        }
        out.push(b'}');
        if self.json.schemas {
            out.push(b'}');
        }
        Ok(())
    }
}

/// The attributes that CloudEvents does not name: numbers of 64 bits are texts there.
fn write_extensions(
    out: &mut Vec<u8>,
    envelope: Record<'_, '_>,
    source: Record<'_, '_>,
) -> Result<(), ConvertError> {
    attribute(out, &extension("op"), &envelope.text("op")?);
    for field in source.fields {
        write_extension(out, &field.name, source.get(&field.name)?)?;
    }
    let transaction = envelope.record("transaction").ok();
    let null = (&Schema::new(Kind::String).optional(true), &Value::Null);
    for name in TRANSACTION {
        let found = transaction.map_or(Ok(null), |transaction| transaction.get(name))?;
        write_extension(out, &format!("tx{name}"), found)?;
    }
    Ok(())
}

fn write_extension(
    out: &mut Vec<u8>,
    name: &str,
    (schema, value): (&Schema, &Value<'_>),
) -> Result<(), ConvertError> {
    label(out, &extension(name));
    match value {
        Value::Null if schema.optional => out.extend(b"null"),
        Value::Null => return Err(ConvertError::RequiredNull),
        Value::Str(text) => write_string(out, text, NonBmp::Escaped),
        Value::Int64(number) => write_string(out, &number.to_string(), NonBmp::Escaped),
        Value::Bool(_) | Value::Int8(_) | Value::Int16(_) | Value::Int32(_) => write_scalar(out, value),
        _ => return Err(ConvertError::NoCloudEvent(name.to_owned())),
    }
    Ok(())
}

/// The name of an attribute: only letters and digits are left of the field's.
fn extension(field: &str) -> String {
    "iodebezium".chars().chain(field.chars().filter(char::is_ascii_alphanumeric)).collect()
}

fn attribute(out: &mut Vec<u8>, name: &str, value: &str) {
    label(out, name);
    write_string(out, value, NonBmp::Escaped);
}

/// Begins the next member; the first one begins the object.
fn label(out: &mut Vec<u8>, name: &str) {
    // No value ends like this.
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    write_string(out, name, NonBmp::Escaped);
    out.push(b':');
}

impl<'r, 'v> Record<'r, 'v> {
    fn of(schema: &'r Schema, value: &'r Value<'v>) -> Option<Self> {
        match (&schema.kind, value) {
            (Kind::Struct(fields), Value::Struct(values)) => Some(Self { fields, values }),
            _ => None,
        }
    }

    /// A field with its value.
    fn field(self, name: &str) -> Result<(&'r Field, &'r Value<'v>), ConvertError> {
        let found = self.fields.iter().zip(self.values).find(|(field, _)| field.name == name);
        found.ok_or_else(|| ConvertError::NoCloudEvent(name.to_owned()))
    }

    /// The value of a field: `Struct.get` gives the default for null.
    fn get(self, name: &str) -> Result<(&'r Schema, &'r Value<'v>), ConvertError> {
        let (field, value) = self.field(name)?;
        let default = field.schema.default.as_ref().filter(|_| value.is_null());
        Ok((&field.schema, default.unwrap_or(value)))
    }

    /// A struct in a field.
    fn record(self, name: &str) -> Result<Self, ConvertError> {
        let (schema, value) = self.get(name)?;
        Self::of(schema, value).ok_or_else(|| ConvertError::NoCloudEvent(name.to_owned()))
    }

    /// A value as Java joins it to a text.
    fn text(self, name: &str) -> Result<String, ConvertError> {
        match self.get(name)?.1 {
            Value::Null => Ok("null".to_owned()),
            Value::Str(text) => Ok(text.to_string()),
            Value::Int64(number) => Ok(number.to_string()),
            _ => Err(ConvertError::NoCloudEvent(name.to_owned())),
        }
    }

    /// When the change was made.
    fn time(self) -> Result<String, ConvertError> {
        let Value::Int64(millis) = *self.get(TIME)?.1 else {
            return Err(ConvertError::NoCloudEvent(TIME.to_owned()));
        };
        let (year, month, day) = calendar_date(millis.div_euclid(MILLIS_PER_DAY));
        let [hour, minute, second, milli] = clock(millis);
        Ok(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"))
    }
}
