use super::error::Problem;
use super::expression::Expression;
use super::settings::Settings;
use crate::connect::Refused;
use crate::connect::source_record::SourceRecord;

const PACKAGE: &str = "org.apache.kafka.connect.transforms.predicates.";

/// Tells which records a transform is applied to.
#[derive(Debug)]
pub(super) enum Predicate {
    /// The topic's whole name matches.
    TopicNameMatches(Expression),
    /// There is a header of this name.
    HasHeaderKey(String),
    /// The value is null.
    RecordIsTombstone,
}

impl Predicate {
    pub(super) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let class = settings.required("type")?;
        match class.trim().strip_prefix(PACKAGE).unwrap_or(class.trim()) {
            "TopicNameMatches" => Expression::read(settings, "pattern").map(Self::TopicNameMatches),
            "HasHeaderKey" => settings.required("name").map(Self::HasHeaderKey),
            "RecordIsTombstone" => Ok(Self::RecordIsTombstone),
            _ => Err(settings.refuse(
                "type",
                "there is no such predicate here; there are TopicNameMatches, HasHeaderKey and RecordIsTombstone",
            )),
        }
    }

    /// Whether it holds for all records of a topic, when it asks for nothing else.
    pub(super) fn holds_for_topic(&self, topic: &str) -> Option<bool> {
        match self {
            Self::TopicNameMatches(expression) => expression.matches(topic).ok(),
            Self::HasHeaderKey(_) | Self::RecordIsTombstone => None,
        }
    }

    pub(super) fn holds(&self, record: &SourceRecord<'_>) -> Result<bool, Problem> {
        Ok(match self {
            Self::TopicNameMatches(expression) => expression.matches(&record.topic)?,
            Self::HasHeaderKey(name) => record.headers.iter().any(|header| header.name == name.as_str()),
            Self::RecordIsTombstone => record.value.value.is_null(),
        })
    }
}
