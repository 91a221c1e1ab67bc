//! Debezium's heartbeat record.

use std::borrow::Cow;
use std::sync::Arc;

use super::converter::registered::SchemaIds;
use super::converter::{ConvertError, Converter, Converters, Destination, Encoded};
use super::record::{Header, OwnedRecord, ProducerRecord};
use super::source_record::{Datum, SourceRecord};
use super::transform::chain::Chain;
use super::transform::error::TransformError;
use super::{Field, Kind, Schema, Value};

/// Debezium's heartbeat record (`io.debezium.heartbeat.HeartbeatImpl`): the key names the connector, the value is the
/// time. The EventRouter does not change it; the converters write it.
#[derive(Debug)]
pub struct Heartbeat {
    topic: String,
    server: String,
    converters: Converters,
    key_schema: Arc<Schema>,
    value_schema: Arc<Schema>,
    /// Transforms of the record.
    chain: Chain,
    scratch: Vec<u8>,
}

/// Failure to write a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BeatError {
    /// A converter does not accept structs, or a schema has no id yet.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// A transform failed.
    #[error(transparent)]
    Transform(#[from] TransformError),
}

impl Heartbeat {
    /// Creates a heartbeat of the connector `server` (`topic.prefix`) to `topic`.
    #[must_use]
    pub fn new(topic: String, server: &str, converters: &Converters) -> Self {
        let field = |name: &str, kind| vec![Field::new(name, Arc::new(Schema::new(kind)))];
        let schema = |name, fields| Arc::new(Schema::named(Kind::Struct(fields), name));
        Self {
            topic,
            server: server.to_owned(),
            converters: converters.clone(),
            key_schema: schema(
                "io.debezium.connector.common.ServerNameKey",
                field("serverName", Kind::String),
            ),
            value_schema: schema("io.debezium.connector.common.Heartbeat", field("ts_ms", Kind::Int64)),
            chain: Chain::default(),
            scratch: Vec::new(),
        }
    }

    /// Returns the heartbeat with these transforms.
    #[must_use]
    pub fn through(self, chain: Chain) -> Self {
        Self { chain, ..self }
    }

    /// Returns the record of a beat at `now_ms`, in milliseconds since the Unix epoch, or `None` if a transform drops
    /// it. Its partition is 0 unless a transform sets another.
    ///
    /// # Errors
    /// When one of the converters does not accept structs, a schema has no id yet, or a transform fails.
    pub fn beat(&mut self, now_ms: i64, schemas: &mut SchemaIds) -> Result<Option<OwnedRecord>, BeatError> {
        self.scratch.clear();
        let (key, value) =
            (Value::Struct(vec![Value::str(&self.server)]), Value::Struct(vec![Value::Int64(now_ms)]));
        let record = SourceRecord {
            topic: Cow::Borrowed(&self.topic),
            partition: Some(0),
            timestamp_ms: None,
            key: Datum::new(Arc::clone(&self.key_schema), key),
            value: Datum::new(Arc::clone(&self.value_schema), value),
            headers: Vec::new(),
        };
        let Some(record) = self.chain.apply(record)? else { return Ok(None) };
        let SourceRecord { topic, partition, timestamp_ms, key, value, headers } = record;
        let mut into = Destination { scratch: &mut self.scratch, topic: &topic, schemas };
        let key = convert(&self.converters.key, &key, &mut into)?;
        let value = convert(&self.converters.value, &value, &mut into)?;
        let mut converted = Vec::with_capacity(headers.len());
        for header in headers {
            converted.push((header.name, convert(&self.converters.header, &header.datum, &mut into)?));
        }
        let scratch = &self.scratch;
        let headers: Vec<_> = converted
            .iter()
            .map(|(name, value)| Header { name, value: value.clone().resolve(scratch) })
            .collect();
        Ok(Some(OwnedRecord::from(&ProducerRecord {
            topic: &topic,
            partition,
            timestamp_ms: timestamp_ms.unwrap_or(now_ms),
            key: key.resolve(scratch),
            value: value.resolve(scratch),
            headers: &headers,
            position: None,
        })))
    }
}

fn convert<'a>(
    converter: &Converter,
    datum: &Datum<'a>,
    into: &mut Destination<'_>,
) -> Result<Encoded<'a>, ConvertError> {
    match (&datum.schema, &datum.value) {
        (None, Value::Null) => Ok(Encoded::Null),
        (schema, value) => converter.convert(schema.as_deref(), value, into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_is_written_as_the_converters_write_it() {
        let json = "org.apache.kafka.connect.json.JsonConverter";
        let key_schema = r#"{"type":"struct","fields":[{"type":"string","optional":false,"field":"serverName"}],"optional":false,"name":"io.debezium.connector.common.ServerNameKey","version":1}"#;
        let value_schema = r#"{"type":"struct","fields":[{"type":"int64","optional":false,"field":"ts_ms"}],"optional":false,"name":"io.debezium.connector.common.Heartbeat","version":1}"#;
        let (key, value) = (r#"{"serverName":"srv"}"#, r#"{"ts_ms":5}"#);
        let with_schema =
            |schema: &str, payload: &str| format!(r#"{{"schema":{schema},"payload":{payload}}}"#);
        type Options<'a> = &'a [(&'a str, &'a str)];
        let cases: [(Options<'_>, String, String); 3] = [
            (
                &[("key.converter", json), ("value.converter", json)],
                with_schema(key_schema, key),
                with_schema(value_schema, value),
            ),
            (
                &[("value.converter", json), ("value.converter.schemas.enable", "false")],
                "Struct{serverName=srv}".to_owned(),
                value.to_owned(),
            ),
            (&[], "Struct{serverName=srv}".to_owned(), value.to_owned()),
        ];
        for (options, key, value) in cases {
            let said = |name: &str| {
                options.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
            };
            let mut heartbeat = Heartbeat::new("beats".to_owned(), "srv", &Converters::parse(&said).unwrap());
            for _ in 0..2 {
                let record = heartbeat.beat(5, &mut SchemaIds::default()).unwrap().unwrap();
                let headers = record.headers();
                let record = record.as_record(&headers);
                assert_eq!(record.key, Some(key.as_bytes()));
                assert_eq!(record.value, Some(value.as_bytes()));
                assert_eq!((record.topic, record.partition, record.timestamp_ms), ("beats", Some(0), 5));
            }
        }
    }

    #[test]
    fn a_converter_of_bytes_takes_none() {
        let said = |name: &str| {
            (name == "value.converter")
                .then(|| "org.apache.kafka.connect.converters.ByteArrayConverter".to_owned())
        };
        let mut heartbeat = Heartbeat::new("beats".to_owned(), "srv", &Converters::parse(&said).unwrap());
        assert!(heartbeat.beat(5, &mut SchemaIds::default()).is_err());
    }
}
