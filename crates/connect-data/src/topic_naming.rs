//! Names of tables' topics.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use super::transform::expression::Renaming;
use super::transform::key_field::{KeyField, PHYSICAL_TABLE};
use super::transform::settings::Settings;
use super::{OptionReader, Refused};

const STRATEGY: &str = "topic.naming.strategy";

/// Longest name that Kafka accepts, in characters.
const NAME_CHARS_MAX: usize = 249;

/// Naming of a table's topic: `topic.naming.strategy`.
#[derive(Debug, Clone, Default)]
pub struct TopicNaming {
    parts: Parts,
    spelling: Spelling,
}

/// Parts of a topic's name behind the prefix.
#[derive(Debug, Clone, Copy, Default)]
enum Parts {
    /// `Schema…TopicNamingStrategy`
    #[default]
    SchemaAndTable,
    /// `Default…TopicNamingStrategy`
    Table,
}

/// Spelling of the parts.
#[derive(Debug, Clone, Default)]
enum Spelling {
    /// A character that Kafka does not accept becomes an underscore.
    #[default]
    Underscores,
    /// `…UnicodeTopicNamingStrategy`: a character that Kafka does not accept, and the underscore, becomes `_u` and its
    /// code.
    Codes,
    /// `…RegexTopicNamingStrategy`: several tables share a topic.
    Expression(Arc<Shared>),
}

/// `topic.regex`, `topic.replacement` and `topic.key.*`
#[derive(Debug)]
struct Shared {
    topic: Renaming,
    /// Field that distinguishes the keys of the tables.
    key_field: Option<KeyField>,
}

impl TopicNaming {
    /// Reads the strategy, a class name with or without its package, and its options.
    ///
    /// # Errors
    /// When the strategy is not supported, or lacks an option.
    pub fn read(options: &mut OptionReader<'_>) -> Result<Self, Refused> {
        let Some(class) = options.filled(STRATEGY) else { return Ok(Self::default()) };
        let name = class.trim().rsplit('.').next().and_then(|name| name.strip_suffix("TopicNamingStrategy"));
        let (parts, spelling) = match name.unwrap_or_default() {
            "Schema" => (Parts::SchemaAndTable, Spelling::Underscores),
            "Default" => (Parts::Table, Spelling::Underscores),
            "SchemaUnicode" => (Parts::SchemaAndTable, Spelling::Codes),
            "DefaultUnicode" => (Parts::Table, Spelling::Codes),
            "SchemaRegex" => (Parts::SchemaAndTable, Spelling::Expression(Shared::read(options)?)),
            "DefaultRegex" => (Parts::Table, Spelling::Expression(Shared::read(options)?)),
            _ => {
                let reason = "there are Schema…, Default…, SchemaUnicode…, DefaultUnicode…, SchemaRegex… and \
                              DefaultRegexTopicNamingStrategy";
                return Err(options.refuse(STRATEGY, class, reason));
            }
        };
        Ok(Self { parts, spelling })
    }

    /// Returns the topic of a table.
    pub fn topic(&self, prefix: &str, delimiter: &str, schema: &str, table: &str) -> String {
        let name = self.parts.joined(prefix, delimiter, schema, table);
        match &self.spelling {
            Spelling::Underscores => with_underscores(&name),
            Spelling::Codes => with_codes(&name),
            Spelling::Expression(shared) => shared.renamed(with_underscores(&name)),
        }
    }

    /// Returns the field that the keys of a table have besides its columns, and its content.
    pub fn key_field(
        &self,
        prefix: &str,
        delimiter: &str,
        schema: &str,
        table: &str,
    ) -> Option<(&str, String)> {
        let Spelling::Expression(shared) = &self.spelling else { return None };
        let field = shared.key_field.as_ref()?;
        let name = Cow::Owned(self.parts.joined(prefix, delimiter, schema, table));
        // An expression that exceeds the backtracking limit matches nothing.
        let content = field.content(&name).map(Cow::into_owned);
        Some((field.name(), content.unwrap_or_else(|_| name.into_owned())))
    }
}

impl Parts {
    fn joined(self, prefix: &str, delimiter: &str, schema: &str, table: &str) -> String {
        let schema = match self {
            Self::SchemaAndTable => schema,
            Self::Table => "",
        };
        let parts: Vec<_> =
            [prefix, schema, table].into_iter().filter(|part| !part.trim().is_empty()).collect();
        parts.join(delimiter)
    }
}

impl Shared {
    fn read(options: &mut OptionReader<'_>) -> Result<Arc<Self>, Refused> {
        let mut settings = Settings::new(options, "topic".to_owned());
        let topic = Renaming::read(&mut settings, "regex", "replacement");
        let key_field = KeyField::read(&mut settings, PHYSICAL_TABLE);
        Ok(Arc::new(Self { topic: topic?, key_field: key_field? }))
    }

    /// Renames a topic. An expression that exceeds the backtracking limit matches nothing.
    fn renamed(&self, topic: String) -> String {
        let renamed = self.topic.rename(&topic).ok().flatten();
        renamed.filter(|renamed| !renamed.is_empty()).unwrap_or(topic)
    }
}

fn with_underscores(name: &str) -> String {
    let kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.chars().map(|c| if kept(c) { c } else { '_' }).take(NAME_CHARS_MAX).collect()
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
    named.truncate(NAME_CHARS_MAX);
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A strategy with other options, the topic of `"s 1"."prix_été"`, and the field of its keys; no topic when it is refused.
    const CASES: [(&str, &str, Option<&str>); 11] = [
        ("", "srv.s_1.prix__t_", None),
        ("io.debezium.schema.SchemaTopicNamingStrategy", "srv.s_1.prix__t_", None),
        ("io.debezium.schema.DefaultTopicNamingStrategy", "srv.prix__t_", None),
        ("SchemaUnicodeTopicNamingStrategy", "srv.s_u00201.prix_u005f_u00e9t_u00e9", None),
        ("DefaultUnicodeTopicNamingStrategy", "srv.prix_u005f_u00e9t_u00e9", None),
        (
            "SchemaRegexTopicNamingStrategy topic.regex=(.*)_t(.*) topic.replacement=$1-$2",
            "srv.s_1.prix_-_",
            Some("__dbz__physicalTableIdentifier=srv.s 1.prix_été"),
        ),
        (
            "DefaultRegexTopicNamingStrategy topic.regex=.*x topic.replacement=y topic.key.enforce.uniqueness=false",
            "srv.prix__t_",
            None,
        ),
        (
            "SchemaRegexTopicNamingStrategy topic.regex=.* topic.replacement=all topic.key.field.name=f \
             topic.key.field.regex=.*prix_(.*) topic.key.field.replacement=$1",
            "all",
            Some("f=été"),
        ),
        ("SchemaRegexTopicNamingStrategy topic.regex=(", "", None),
        ("io.debezium.schema.SchemaRegexTopicNamingStrategy", "", None),
        ("org.example.Own", "", None),
    ];

    #[test]
    fn each_strategy_names_a_table() {
        for (settings, topic, field) in CASES {
            let mut settings = settings.split_whitespace();
            let class = settings.next().unwrap_or_default();
            let options: Vec<_> = settings.filter_map(|setting| setting.split_once('=')).collect();
            let lookup = |key: &str| match key {
                STRATEGY => Some(class.to_owned()),
                _ => options.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned()),
            };
            let Ok(naming) = TopicNaming::read(&mut OptionReader::new(&lookup)) else {
                assert_eq!(topic, "", "{class}");
                continue;
            };
            assert_eq!(naming.topic("srv", ".", "s 1", "prix_été"), topic, "{class}");
            let told = naming.key_field("srv", ".", "s 1", "prix_été");
            let told = told.map(|(name, content)| format!("{name}={content}"));
            assert_eq!(told.as_deref(), field, "{class}");
        }
    }
}
