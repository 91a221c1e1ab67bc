//! Names of subjects.

use super::{SchemaError, Side};

/// `key.subject.name.strategy`, `value.subject.name.strategy`: rule for the name of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubjectNameStrategy {
    /// `TopicNameStrategy`, the default, and Apicurio's `TopicIdStrategy`: topic with the suffix `-key` or `-value`.
    Topic,
    /// Apicurio's `SimpleTopicIdStrategy`: topic without a suffix.
    SimpleTopic,
    /// `RecordNameStrategy`: full name of the record.
    Record,
    /// `TopicRecordNameStrategy`: topic, hyphen, full name of the record.
    TopicRecord,
}

impl SubjectNameStrategy {
    /// Reports whether the strategy supports only named records.
    pub(super) const fn needs_record(self) -> bool {
        matches!(self, Self::Record | Self::TopicRecord)
    }

    /// Returns the name of the strategy for messages.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Topic => "TopicNameStrategy",
            Self::SimpleTopic => "SimpleTopicIdStrategy",
            Self::Record => "RecordNameStrategy",
            Self::TopicRecord => "TopicRecordNameStrategy",
        }
    }

    pub(super) fn subject(
        self,
        side: Side,
        topic: &str,
        record: Option<&str>,
    ) -> Result<String, SchemaError> {
        let record = || record.ok_or(SchemaError::NoRecord(self.name()));
        Ok(match (self, side) {
            (Self::Topic, Side::Key) => format!("{topic}-key"),
            (Self::Topic, Side::Value) => format!("{topic}-value"),
            (Self::SimpleTopic, _) => topic.to_owned(),
            (Self::Record, _) => record()?.to_owned(),
            (Self::TopicRecord, _) => format!("{topic}-{}", record()?),
        })
    }
}
