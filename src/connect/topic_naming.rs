use std::fmt::Write as _;

use super::{OptionReader, Refused};

const STRATEGY: &str = "topic.naming.strategy";

/// How a table's topic is named: `topic.naming.strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TopicNaming {
    /// `SchemaTopicNamingStrategy`: prefix, schema and table. An underscore stands for what Kafka does not take.
    #[default]
    Schema,
    /// `DefaultTopicNamingStrategy`: the same without the schema.
    Table,
    /// `SchemaUnicodeTopicNamingStrategy`: what Kafka does not take, and the underscore, as `_u` and its code.
    SchemaUnicode,
}

impl TopicNaming {
    /// Reads the strategy, a class with or without its package.
    ///
    /// # Errors
    /// When there is no such strategy here.
    pub(crate) fn read(options: &mut OptionReader<'_>) -> Result<Self, Refused> {
        let Some(class) = options.filled(STRATEGY) else { return Ok(Self::default()) };
        match class.trim().rsplit('.').next().unwrap_or_default() {
            "SchemaTopicNamingStrategy" => Ok(Self::Schema),
            "DefaultTopicNamingStrategy" => Ok(Self::Table),
            "SchemaUnicodeTopicNamingStrategy" => Ok(Self::SchemaUnicode),
            _ => Err(options.refuse(
                STRATEGY,
                class,
                "there are SchemaTopicNamingStrategy, DefaultTopicNamingStrategy and SchemaUnicodeTopicNamingStrategy",
            )),
        }
    }

    /// The topic of a table.
    pub(crate) fn topic(self, prefix: &str, delimiter: &str, schema: &str, table: &str) -> String {
        let name = match self {
            Self::Schema | Self::SchemaUnicode => [prefix, schema, table].join(delimiter),
            Self::Table => [prefix, table].join(delimiter),
        };
        match self {
            Self::Schema | Self::Table => {
                let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
                name.chars().map(|c| if kept(c) { c } else { '_' }).collect()
            }
            Self::SchemaUnicode => with_codes(&name),
        }
    }
}

fn with_codes(name: &str) -> String {
    let mut named = String::with_capacity(name.len());
    for unit in name.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-') => {
                named.push(char::from(byte));
            }
            _ => {
                let _infallible = write!(named, "_u{unit:04x}");
            }
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_strategy_names_a_table() {
        let cases = [
            ("", "srv.s_1.prix__t_", false),
            ("io.debezium.schema.SchemaTopicNamingStrategy", "srv.s_1.prix__t_", false),
            ("io.debezium.schema.DefaultTopicNamingStrategy", "srv.prix__t_", false),
            ("SchemaUnicodeTopicNamingStrategy", "srv.s_u00201.prix_u005f_u00e9t_u00e9", false),
            ("io.debezium.schema.SchemaRegexTopicNamingStrategy", "", true),
        ];
        for (class, topic, refused) in cases {
            let lookup = |_: &str| Some(class.to_owned());
            match TopicNaming::read(&mut OptionReader::new(&lookup)) {
                Ok(naming) => assert_eq!(naming.topic("srv", ".", "s 1", "prix_été"), topic, "{class}"),
                Err(_) => assert!(refused, "{class}"),
            }
        }
    }
}
