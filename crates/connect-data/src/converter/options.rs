//! Choice of a connector's three converters.

use super::json::{DecimalFormat, JsonConverter};
use super::registered::RegisteredConverter;
use super::{Converter, cloud_events};
use crate::{OptionError, OptionReader, Refused};

const ENCODING: &str = "converter.encoding";
const BINARY_DELEGATE: &str = "delegate.converter.type";

/// The three converters of a connector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converters {
    /// `key.converter` (StringConverter)
    pub key: Converter,
    /// `value.converter` (the payload's own bytes)
    pub value: Converter,
    /// `header.converter` (SimpleHeaderConverter)
    pub header: Converter,
}

impl Default for Converters {
    fn default() -> Self {
        Self { key: Converter::String, value: Converter::PayloadBytes, header: Converter::SimpleHeader }
    }
}

impl Converters {
    /// Returns the default converters of change events: JSON with schemas for keys and values.
    pub fn of_changes() -> Self {
        let json = || Converter::Json(JsonConverter::default());
        Self { key: json(), value: json(), header: Converter::SimpleHeader }
    }

    /// Reports whether keys or values are Avro.
    pub fn writes_avro(&self) -> bool {
        let is_avro =
            |converter: &Converter| matches!(converter, Converter::Registered(it) if it.writes_avro());
        is_avro(&self.key) || is_avro(&self.value)
    }

    /// Reads the converters and their options. `lookup` returns the text for a key such as `value.converter` or
    /// `value.converter.schemas.enable`.
    ///
    /// # Errors
    /// When a class is unknown or one of its options is invalid; returns the first such error.
    pub fn parse(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, OptionError> {
        OptionReader::alone(lookup, Self::read)
    }

    /// Reads the converters and their options.
    ///
    /// # Errors
    /// When a class is unknown, or a converter does not support one of its options.
    pub fn read(options: &mut OptionReader<'_>) -> Result<Self, Refused> {
        Self::read_or(options, Self::default())
    }

    /// Reads the converters and their options, with `default` for the converters that are not named.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_or(options: &mut OptionReader<'_>, default: Self) -> Result<Self, Refused> {
        let [key, value, header] =
            ["key.converter", "value.converter", "header.converter"].map(|key| converter(options, key));
        let converters = Self {
            key: key?.unwrap_or(default.key),
            value: value?.unwrap_or(default.value),
            header: header?.unwrap_or(default.header),
        };
        converters.check_headers(options)?;
        Ok(converters)
    }

    /// Checks that headers are JSON with schemas if the value converter reads them.
    fn check_headers(&self, options: &mut OptionReader<'_>) -> Result<(), Refused> {
        let is_json = matches!(&self.header, Converter::Json(json) if json.schemas);
        if is_json || !self.value.reads_headers() {
            return Ok(());
        }
        let reason = "CloudEventsConverter reads metadata from headers that are JSON with schemas: set \
                      org.apache.kafka.connect.json.JsonConverter, and header.converter.schemas.enable to true";
        let said = options.text("header.converter").unwrap_or_default();
        Err(options.refuse("header.converter", said, reason))
    }
}

/// Reads the converter that `key` names, with the options below `key`.
fn converter(options: &mut OptionReader<'_>, key: &str) -> Result<Option<Converter>, Refused> {
    let Some(class) = options.text(key) else { return Ok(None) };
    let class_name = class.trim().rsplit('.').next().unwrap_or_default();
    Ok(Some(match class_name {
        "StringConverter" => string(options, key),
        "SimpleHeaderConverter" => Converter::SimpleHeader,
        "JsonConverter" => Converter::Json(JsonConverter::read(options, key)),
        "AvroConverter" | "JsonSchemaConverter" | "ProtobufConverter" => {
            Converter::Registered(RegisteredConverter::read(options, key, &class)?)
        }
        "ByteArrayConverter" if class.trim().starts_with("io.debezium.") => {
            match converter(options, &format!("{key}.{BINARY_DELEGATE}"))? {
                Some(delegate) => Converter::DebeziumByteArray(Box::new(delegate)),
                None => Converter::ByteArray,
            }
        }
        "ByteArrayConverter" => Converter::ByteArray,
        "CloudEventsConverter" => Converter::CloudEvents(cloud_events::read(options, key, &class)?),
        "BinaryDataConverter" | "ByteBufferConverter" => {
            Converter::BinaryData(converter(options, &format!("{key}.{BINARY_DELEGATE}"))?.map(Box::new))
        }
        _ => return Err(options.refuse(key, &class, UNKNOWN_CLASS)),
    }))
}

const UNKNOWN_CLASS: &str = "no such converter here; there are StringConverter, JsonConverter, AvroConverter, \
                             JsonSchemaConverter, ProtobufConverter, CloudEventsConverter, ByteArrayConverter, BinaryDataConverter and \
                             SimpleHeaderConverter";

fn string(options: &mut OptionReader<'_>, key: &str) -> Converter {
    let key = format!("{key}.{ENCODING}");
    if let Some(encoding) = options.text(&key)
        && !matches!(encoding.trim().to_ascii_uppercase().as_str(), "UTF8" | "UTF-8")
    {
        options.refuse(key, encoding, "only UTF-8 is written");
    }
    Converter::String
}

impl JsonConverter {
    /// Reads the options of JsonConverter below `key`.
    pub(super) fn read(options: &mut OptionReader<'_>, key: &str) -> Self {
        let default = Self::default();
        let formats = [("BASE64", DecimalFormat::Base64), ("NUMERIC", DecimalFormat::Numeric)];
        let replace_null = format!("{key}.replace.null.with.default");
        Self {
            schemas: options.boolean(&format!("{key}.schemas.enable"), default.schemas),
            decimal_format: options.one_of(
                &format!("{key}.decimal.format"),
                &formats,
                default.decimal_format,
            ),
            replace_null_with_default: options.boolean(&replace_null, default.replace_null_with_default),
            named_entries: default.named_entries,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[(&str, &str)]) -> Result<Converters, OptionError> {
        Converters::parse(&|key| {
            options.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn converters_are_read_with_their_options() {
        let json = |schemas, decimal_format| {
            Converter::Json(JsonConverter { schemas, decimal_format, ..JsonConverter::default() })
        };
        let cases: &[(&[(&str, &str)], Converter)] = &[
            (&[], Converter::PayloadBytes),
            (&[("value.converter", "org.apache.kafka.connect.storage.StringConverter")], Converter::String),
            (
                &[("value.converter", "org.apache.kafka.connect.json.JsonConverter")],
                json(true, DecimalFormat::Base64),
            ),
            (
                &[
                    ("value.converter", "org.apache.kafka.connect.json.JsonConverter"),
                    ("value.converter.schemas.enable", "FALSE"),
                    ("value.converter.decimal.format", "numeric"),
                ],
                json(false, DecimalFormat::Numeric),
            ),
            (
                &[("value.converter", "org.apache.kafka.connect.converters.ByteArrayConverter")],
                Converter::ByteArray,
            ),
            (
                &[
                    ("value.converter", "io.debezium.converters.BinaryDataConverter"),
                    (
                        "value.converter.delegate.converter.type",
                        "org.apache.kafka.connect.json.JsonConverter",
                    ),
                    ("value.converter.delegate.converter.type.schemas.enable", "false"),
                ],
                Converter::BinaryData(Some(Box::new(json(false, DecimalFormat::Base64)))),
            ),
        ];
        for (options, value) in cases {
            assert_eq!(parse(options).unwrap().value, *value, "{options:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[("key.converter", "com.example.ThriftConverter")], "no such converter here"),
            (
                &[
                    ("key.converter", "org.apache.kafka.connect.storage.StringConverter"),
                    ("key.converter.converter.encoding", "UTF-16"),
                ],
                "only UTF-8",
            ),
            (&[("header.converter", "io.confluent.connect.avro.AvroConverter")], "keys and values only"),
            (
                &[("value.converter", "JsonConverter"), ("value.converter.schemas.enable", "no")],
                "true or false",
            ),
        ];
        for (options, reason) in cases {
            let error = parse(options).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
