//! Transforms `RegexRouter`, `TimestampRouter` and `Filter`.

use crate::Refused;
use crate::java::date_format::DateFormat;
use crate::source_record::SourceRecord;
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::expression::Renaming;
use crate::transform::settings::Settings;

/// Transform `RegexRouter`, which renames topics that match.
#[derive(Debug)]
pub(in crate::transform) struct RegexRouter(Renaming);

/// Transform `TimestampRouter`, which adds the record's time to the topic's name.
#[derive(Debug)]
pub(in crate::transform) struct TimestampRouter {
    topic: String,
    time: DateFormat,
}

/// Transform `Filter`, which drops every record that its predicate selects.
#[derive(Debug)]
pub(in crate::transform) struct Filter;

impl RegexRouter {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        Renaming::read(settings, "regex", "replacement").map(Self)
    }
}

impl Transform for RegexRouter {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        self.0.route(&mut record.topic)?;
        Ok(Some(record))
    }

    fn renaming(&self) -> Option<&Renaming> {
        Some(&self.0)
    }

    fn shares_headers(&self, record: &SourceRecord<'_>) -> bool {
        self.0.rename(&record.topic).is_ok_and(|topic| topic.is_none())
    }
}

impl Transform for Filter {
    fn apply<'a>(&'a self, _record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        Ok(None)
    }
}

impl TimestampRouter {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let topic = settings.raw("topic.format").unwrap_or_else(|| "${topic}-${timestamp}".to_owned());
        let pattern = settings.raw("timestamp.format").unwrap_or_else(|| "yyyyMMdd".to_owned());
        let time = DateFormat::compile(&pattern)
            .ok_or_else(|| settings.refuse("timestamp.format", crate::transform::UNKNOWN_FORMAT))?;
        Ok(Self { topic, time })
    }
}

impl Transform for TimestampRouter {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let millis = record.timestamp_ms.ok_or(Problem::NoTimestamp)?;
        let topic = self.topic.replace("${topic}", &record.topic);
        record.topic = topic.replace("${timestamp}", &self.time.format(millis)).into();
        Ok(Some(record))
    }
}
