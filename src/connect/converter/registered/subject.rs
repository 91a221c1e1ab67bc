use super::{SchemaError, Side};

/// `key.subject.name.strategy`, `value.subject.name.strategy`: what a subject is named after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubjectNameStrategy {
    /// `TopicNameStrategy`, the default, and Apicurio's `TopicIdStrategy`: the topic, then `-key` or `-value`.
    Topic,
    /// Apicurio's `SimpleTopicIdStrategy`: the topic alone.
    SimpleTopic,
    /// `RecordNameStrategy`: the record's full name.
    Record,
    /// `TopicRecordNameStrategy`: topic, hyphen, the record's full name.
    TopicRecord,
}

impl SubjectNameStrategy {
    /// Whether only records can be written.
    pub(super) const fn needs_record(self) -> bool {
        matches!(self, Self::Record | Self::TopicRecord)
    }

    /// The strategy as it is told to a person.
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
