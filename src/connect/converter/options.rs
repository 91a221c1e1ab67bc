use super::Converter;
use super::avro::AvroConverter;
use super::json::{DecimalFormat, JsonConverter};
use crate::connect::OptionError;
use crate::connect::option::{Lookup, boolean, one_of};

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
    /// Reads the converters and their options; `lookup` gives the text for a key such as `value.converter` or
    /// `value.converter.schemas.enable`.
    ///
    /// # Errors
    /// When a class is not known here, or one of its options has no meaning.
    pub fn parse(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, OptionError> {
        let default = Self::default();
        Ok(Self {
            key: converter(lookup, "key.converter")?.unwrap_or(default.key),
            value: converter(lookup, "value.converter")?.unwrap_or(default.value),
            header: converter(lookup, "header.converter")?.unwrap_or(default.header),
        })
    }
}

/// The converter that `key` names, with the options below `key`.
fn converter(lookup: Lookup<'_>, key: &str) -> Result<Option<Converter>, OptionError> {
    let Some(class) = lookup(key) else { return Ok(None) };
    let class_name = class.trim().rsplit('.').next().unwrap_or_default();
    Ok(Some(match class_name {
        "StringConverter" => string(lookup, key)?,
        "SimpleHeaderConverter" => Converter::SimpleHeader,
        "JsonConverter" => Converter::Json(json(lookup, key)?),
        "AvroConverter" => Converter::Avro(AvroConverter::parse(lookup, key, &class)?),
        "ByteArrayConverter" => Converter::ByteArray,
        "BinaryDataConverter" | "ByteBufferConverter" => {
            Converter::BinaryData(converter(lookup, &format!("{key}.{BINARY_DELEGATE}"))?.map(Box::new))
        }
        _ => return Err(unknown_class(key, &class)),
    }))
}

fn string(lookup: Lookup<'_>, key: &str) -> Result<Converter, OptionError> {
    let key = format!("{key}.{ENCODING}");
    match lookup(&key) {
        Some(encoding) if !matches!(encoding.trim().to_ascii_uppercase().as_str(), "UTF8" | "UTF-8") => {
            Err(OptionError::new(key, encoding, "only UTF-8 is written"))
        }
        _ => Ok(Converter::String),
    }
}

fn json(lookup: Lookup<'_>, key: &str) -> Result<JsonConverter, OptionError> {
    let default = JsonConverter::default();
    let formats = [("BASE64", DecimalFormat::Base64), ("NUMERIC", DecimalFormat::Numeric)];
    let decimal_format = format!("{key}.decimal.format");
    let replace_null = format!("{key}.replace.null.with.default");
    Ok(JsonConverter {
        schemas: boolean(lookup, &format!("{key}.schemas.enable"), default.schemas)?,
        decimal_format: one_of(lookup, &decimal_format, &formats, default.decimal_format)?,
        replace_null_with_default: boolean(lookup, &replace_null, default.replace_null_with_default)?,
    })
}

fn unknown_class(key: &str, class: &str) -> OptionError {
    let reason = "no such converter here; there are StringConverter, JsonConverter, AvroConverter, \
                  ByteArrayConverter, BinaryDataConverter and SimpleHeaderConverter";
    OptionError::new(key, class, reason)
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
            Converter::Json(JsonConverter { schemas, decimal_format, replace_null_with_default: true })
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
            (
                &[("key.converter", "io.confluent.connect.protobuf.ProtobufConverter")],
                "no such converter here",
            ),
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
