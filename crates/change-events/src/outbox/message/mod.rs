//! The outbox without a table: JSON in `pg_logical_emit_message`, and Debezium's
//! `DecodeLogicalDecodingMessageContent` before the router.

mod content;
mod error;
mod prefixes;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

use super::expand::{EmptyArrayBehavior, JsonExpansion, KnownSchemas, NullBehavior, Shaped, Shaping};
use super::options::{AdditionalMissing, MappedColumn};
use super::record::encoder::Encoder;
use super::record::{Converted, Headers, RoutedRecord};
use super::router::{NamedConverter, Router};
use super::table::placement::{AdditionalField, Placement};
use super::table::{RouteContext, is_empty};
use super::table::{binding, envelope};
use connect_data::converter::{Converter, Destination, Encoded};
use connect_data::{Field, Kind, NameAdjustment, OptionReader, Schema, Value};

use content::Content;
pub use error::MessageError;
pub use prefixes::MessagePrefixes;

const PLACEMENT: &str = "table.fields.additional.placement";
const TIMESTAMP: &str = "table.field.event.timestamp";
const VERSION: &str = "table.field.event.schema.version";
const NULLS: &str = "fields.null.include";

/// Logical messages as an outbox: its input is contents, its output is events. Unlike rows they have no
/// `__debezium.context.*` headers.
#[derive(Debug)]
pub struct MessageOutbox {
    router: Arc<Router>,
    expansion: JsonExpansion,
    prefixes: MessagePrefixes,
}

/// A field of a message's content.
struct Named<'c> {
    name: &'c str,
    schema: &'c Arc<Schema>,
    value: &'c Value<'static>,
}

impl MessageOutbox {
    /// Reads `fields.null.include` (false) of the decoding transform, which retains fields that are null.
    pub(super) fn read(
        router: Arc<Router>,
        prefixes: MessagePrefixes,
        options: &mut OptionReader<'_>,
    ) -> Self {
        let null = match options.boolean(NULLS, false) {
            true => NullBehavior::OptionalBytes,
            false => NullBehavior::Ignore,
        };
        let expansion = JsonExpansion {
            null,
            empty_array: EmptyArrayBehavior::Ignore,
            lossless: false,
            names: NameAdjustment::None,
        };
        Self { router, expansion, prefixes }
    }

    /// Reports whether messages with this prefix are events.
    #[must_use]
    pub fn takes(&self, prefix: &str) -> bool {
        self.prefixes.take(prefix)
    }

    /// Routes a message by its content.
    ///
    /// # Errors
    /// When the content is no JSON object, lacks a field, or a value cannot be converted.
    pub fn route<'a>(
        &'a self,
        content: &[u8],
        at: RouteContext,
        encoder: &'a mut Encoder,
    ) -> Result<RoutedRecord<'a>, MessageError> {
        let content = Content::read(self.expansion, content)?;
        encoder.start_row();
        let route = self.route_value(&content)?;
        let topic = encoder.topics.learn(&self.router.options.topic, route).map_err(|error| {
            MessageError::Topic { field: self.router.options.route_by.column.clone(), source: error.into() }
        })?;
        let Encoder { scratch, topics, schemas, structures } = encoder;
        let into = &mut Destination { scratch, topic: topics.name(topic), schemas };
        let headers = self.headers(&content, into)?;
        let key = self.mapped(&content, &self.router.options.event_key)?;
        let key = convert(self.router.key_converter(), &key, into)?;
        let value = self.value(&content, route, structures, into)?;
        let partition = self.partition(&content)?;
        let timestamp_ms = self.timestamp_ms(&content)?.unwrap_or(at.now_ms);
        Ok(Converted { topic, partition, timestamp_ms, key, value, headers }.resolve(encoder))
    }

    /// Returns topic and key of a message that makes no event, each if it is known.
    pub(super) fn topic_and_key(
        &self,
        content: &[u8],
        encoder: &mut Encoder,
    ) -> (Option<String>, Option<Vec<u8>>) {
        let Ok(content) = Content::read(self.expansion, content) else { return (None, None) };
        let route = self.route_value(&content).ok();
        let topic = route.and_then(|route| encoder.topics.learn(&self.router.options.topic, route).ok());
        let topic = topic.map(|topic| encoder.topics.name(topic).to_owned());
        let Encoder { scratch, schemas, .. } = encoder;
        let into = &mut Destination { scratch, topic: topic.as_deref().unwrap_or_default(), schemas };
        let key = self.mapped(&content, &self.router.options.event_key);
        let key = key.and_then(|key| convert(self.router.key_converter(), &key, into));
        let key = key.ok().and_then(|key| key.resolve(&encoder.scratch).map(<[u8]>::to_vec));
        (topic, key)
    }

    fn route_value<'c>(&'c self, content: &'c Content) -> Result<&'c str, MessageError> {
        let mapped = &self.router.options.route_by;
        match self.mapped(content, mapped)?.value {
            Value::Str(text) => Ok(text),
            _ => Err(MessageError::Kind {
                option: mapped.option,
                field: mapped.column.clone(),
                wanted: "a text",
            }),
        }
    }

    /// Converts the headers: the id, then the additional headers.
    fn headers(&self, content: &Content, into: &mut Destination<'_>) -> Result<Headers<'_>, MessageError> {
        let converter = self.router.header_converter();
        let id = self.mapped(content, &self.router.options.event_id)?;
        let mut headers: Headers<'_> = SmallVec::new();
        headers.push(("id", convert(converter, &id, into)?));
        for field in self.placed(Placement::Header) {
            if let Some(named) = self.additional(content, field)? {
                headers.push((&field.alias, convert(converter, &named, into)?));
            }
        }
        Ok(headers)
    }

    fn value(
        &self,
        content: &Content,
        route: &str,
        structures: &mut KnownSchemas,
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'static>, MessageError> {
        let options = &self.router.options;
        let converter = self.router.value_converter();
        let payload = self.mapped(content, &options.payload)?;
        if options.tombstone_on_empty_payload && is_empty(payload.value) {
            return Ok(Encoded::Null);
        }
        let enveloped = options.is_enveloped();
        let shaping = Shaping {
            expansion: options.expand_json,
            name: payload.name,
            schema: payload.schema,
            enveloped,
            ignore_schemas: self.router.converters.value == Converter::String,
        };
        let Shaped { schema, value } = shaping.shape(payload.value.clone(), structures);
        let (schema, value) = match schema {
            Some(schema) if enveloped => self.envelope(content, route, schema, value)?,
            Some(schema) => (schema, value),
            None => return write(converter, payload.name, None, &value, into),
        };
        write(converter, payload.name, Some(&schema), &value, into)
    }

    /// Builds the envelope. The content's struct has no name, so the envelope's name is the route value
    /// alone.
    fn envelope(
        &self,
        content: &Content,
        route: &str,
        payload_schema: Arc<Schema>,
        payload: Value<'static>,
    ) -> Result<(Arc<Schema>, Value<'static>), MessageError> {
        let mut fields = vec![Field::new(envelope::PAYLOAD, payload_schema)];
        let mut values = vec![payload];
        for field in self.placed(Placement::Envelope) {
            if let Some(named) = self.additional(content, field)? {
                fields.push(Field::new(&field.alias, Arc::clone(named.schema)));
                values.push(named.value.clone());
            }
        }
        let mut schema = Schema::new(Kind::Struct(fields));
        schema.name = Some(Cow::Owned(route.to_owned()));
        if let Some(column) = &self.router.options.schema_version {
            let version = integer(&find(content, VERSION, column)?, VERSION)?;
            schema.version = version.and_then(|version| i32::try_from(version).ok());
        }
        Ok((Arc::new(schema), Value::Struct(values)))
    }

    fn partition(&self, content: &Content) -> Result<Option<i32>, MessageError> {
        let Some(field) = self.placed(Placement::Partition).last() else { return Ok(None) };
        let Some(named) = self.additional(content, field)? else { return Ok(None) };
        let Some(number) = integer(&named, PLACEMENT)? else { return Ok(None) };
        match i32::try_from(number) {
            Ok(partition @ 0..) => Ok(Some(partition)),
            _ => Err(named.unsuitable(PLACEMENT, "a partition, from 0 to 2147483647")),
        }
    }

    fn timestamp_ms(&self, content: &Content) -> Result<Option<i64>, MessageError> {
        let Some(column) = &self.router.options.event_timestamp else { return Ok(None) };
        let named = find(content, TIMESTAMP, column)?;
        match integer(&named, TIMESTAMP)? {
            Some(millis) if millis < 0 => Err(named.unsuitable(TIMESTAMP, "milliseconds since 1970")),
            millis => Ok(millis),
        }
    }

    fn placed(&self, placement: Placement) -> impl Iterator<Item = &AdditionalField> {
        self.router.options.additional.iter().filter(move |field| field.placement == placement)
    }

    fn additional<'c>(
        &self,
        content: &'c Content,
        field: &'c AdditionalField,
    ) -> Result<Option<Named<'c>>, MessageError> {
        match find(content, PLACEMENT, &field.column) {
            Err(_) if self.router.options.additional_missing == AdditionalMissing::Ignore => Ok(None),
            found => found.map(Some),
        }
    }

    /// Finds the field that an option names, or the twin of its default.
    fn mapped<'c>(&self, content: &'c Content, mapped: &'c MappedColumn) -> Result<Named<'c>, MessageError> {
        let found = find(content, mapped.option, &mapped.column);
        match (found, binding::twin_of(&mapped.column)) {
            (Err(missing), Some(twin)) if !mapped.explicit => {
                find(content, mapped.option, twin).map_err(|_| missing)
            }
            (found, _) => found,
        }
    }
}

impl Named<'_> {
    fn unsuitable(&self, option: &'static str, wanted: &'static str) -> MessageError {
        MessageError::Kind { option, field: self.name.to_owned(), wanted }
    }
}

fn find<'c>(content: &'c Content, option: &'static str, name: &'c str) -> Result<Named<'c>, MessageError> {
    let (schema, value) =
        content.get(name).ok_or_else(|| MessageError::Missing { option, field: name.to_owned() })?;
    Ok(Named { name, schema, value })
}

fn integer(named: &Named<'_>, option: &'static str) -> Result<Option<i64>, MessageError> {
    match named.value {
        Value::Null => Ok(None),
        Value::Int32(number) => Ok(Some(i64::from(*number))),
        Value::Int64(number) => Ok(Some(*number)),
        _ => Err(named.unsuitable(option, "an integer")),
    }
}

fn convert(
    converter: NamedConverter<'_>,
    named: &Named<'_>,
    into: &mut Destination<'_>,
) -> Result<Encoded<'static>, MessageError> {
    write(converter, named.name, Some(named.schema), named.value, into)
}

fn write(
    NamedConverter { option, converter }: NamedConverter<'_>,
    field: &str,
    schema: Option<&Schema>,
    value: &Value<'static>,
    into: &mut Destination<'_>,
) -> Result<Encoded<'static>, MessageError> {
    let converted = converter.convert(schema, value, into);
    converted.map_err(|source| MessageError::Convert { field: field.to_owned(), option, source })
}
