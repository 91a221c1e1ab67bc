//! Predicates of transforms.

use super::error::Problem;
use super::expression::Expression;
use super::settings::Settings;
use crate::Refused;
use crate::source_record::SourceRecord;

const PACKAGE: &str = "org.apache.kafka.connect.transforms.predicates.";

/// Condition under which a transform is applied to a record.
#[derive(Debug)]
pub(super) enum Predicate {
    /// Match of the topic's whole name.
    TopicNameMatches(Expression),
    /// Presence of a header of this name.
    HasHeaderKey(String),
    /// Null value.
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

    /// Returns whether the predicate holds for all records of a topic; none when that depends on the record, or the
    /// expression fails.
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
