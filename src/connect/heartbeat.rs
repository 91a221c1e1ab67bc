use std::sync::Arc;

use super::converter::avro::SchemaIds;
use super::converter::{ConvertError, Converters, Destination};
use super::record::ProducerRecord;
use super::{Field, Kind, Schema, Value};

/// Debezium's heartbeat record (`io.debezium.heartbeat.HeartbeatImpl`): a key that names the connector and a value that
/// tells the time. The EventRouter lets it pass; the converters write it.
#[derive(Debug)]
pub struct Heartbeat {
    topic: String,
    server: String,
    converters: Converters,
    key_schema: Schema,
    value_schema: Schema,
    scratch: Vec<u8>,
}

impl Heartbeat {
    /// A heartbeat of the connector `server` (`topic.prefix`) to `topic`.
    #[must_use]
    pub fn new(topic: String, server: &str, converters: &Converters) -> Self {
        let field = |name: &str, kind| vec![Field::new(name, Arc::new(Schema::new(kind)))];
        let schema = |name, fields| Schema::named(Kind::Struct(fields), name);
        Self {
            topic,
            server: server.to_owned(),
            converters: converters.clone(),
            key_schema: schema(
                "io.debezium.connector.common.ServerNameKey",
                field("serverName", Kind::String),
            ),
            value_schema: schema("io.debezium.connector.common.Heartbeat", field("ts_ms", Kind::Int64)),
            scratch: Vec::new(),
        }
    }

    /// The record of a beat at `now_ms`, in milliseconds since the Unix epoch. It goes to partition 0.
    ///
    /// # Errors
    /// When one of the converters takes no structs, or a schema has no id yet.
    pub fn beat(&mut self, now_ms: i64, schemas: &mut SchemaIds) -> Result<ProducerRecord<'_>, ConvertError> {
        self.scratch.clear();
        let mut into = Destination { scratch: &mut self.scratch, topic: &self.topic, schemas };
        let (key, value) =
            (Value::Struct(vec![Value::str(&self.server)]), Value::Struct(vec![Value::Int64(now_ms)]));
        let key = self.converters.key.convert(Some(&self.key_schema), &key, &mut into)?;
        let value = self.converters.value.convert(Some(&self.value_schema), &value, &mut into)?;
        Ok(ProducerRecord {
            topic: &self.topic,
            partition: Some(0),
            timestamp_ms: now_ms,
            key: key.resolve(&self.scratch),
            value: value.resolve(&self.scratch),
            headers: &[],
            position: None,
        })
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
                let record = heartbeat.beat(5, &mut SchemaIds::default()).unwrap();
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
