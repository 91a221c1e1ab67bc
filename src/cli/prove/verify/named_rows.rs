//! Expected records of a few outbox rows, for `outboxd explain`: a record belongs to a row by `verify`'s comparison, not by the id
//! alone.

use std::sync::Arc;

use super::error::VerifyError;
use super::plan::Plan;
use super::rows::TopicList;
use super::scratch::{RANGES, Scratch};
use super::sides::{ReadRows, Sides};
use crate::cli::shell::progress::Progress;
use crate::connect::record::VALUE_OMITTED_HEADER;
use crate::kafka::ScannedRecord;
use crate::postgres::{Sql, TlsSetup};
use crate::relay::{Capture, DeadLetters, RelayParts};
use crate::verification::{
    Comparison, Contents, Expected, Found, Identity, Tally, TopicNumber, Topics, TraceHeaders,
};

/// A topic that no row leads to.
const OTHER_TOPIC: TopicNumber = TopicNumber(u32::MAX - 1);

/// Some rows, and their expected records.
#[derive(Debug)]
pub(in crate::cli) struct NamedRows {
    rows: Vec<Expected>,
    topics: TopicList,
    dead_letters: Option<TopicNumber>,
    traces: TraceHeaders,
}

impl NamedRows {
    /// Reads the rows with these ids.
    ///
    /// # Errors
    /// When they cannot be read, or not be made into records.
    pub(in crate::cli) async fn read(
        parts: &Arc<RelayParts>,
        sql: &Sql,
        application: &str,
        ids: &[String],
    ) -> Result<Self, VerifyError> {
        let capture = Capture::find(sql, parts).await?;
        let plan = Plan::of_ids(sql, parts, capture, ids).await?;
        let (scratch, progress) = (Scratch::new(None)?, Progress::hidden());
        let sides = Sides { parts, plan: &plan, scratch: &scratch, progress: &progress };
        let tls = TlsSetup::new(&parts.postgres.server)?;
        let ReadRows { rows: mut spilled, mut topics, .. } = sides.read_rows(sql, &tls, application).await?;
        let mut rows = Vec::new();
        for range in RANGES {
            rows.extend(spilled.take(range)?);
        }
        let letters = parts.dead_letters.as_ref().map(DeadLetters::topic);
        let dead_letters = letters.map(|topic| topics.number(topic)).transpose()?;
        Ok(Self { rows, topics, dead_letters, traces: plan.traces })
    }

    /// Returns whether a record is one of these rows', as a record or as a dead letter; none if no row has its id.
    pub(in crate::cli) fn has(&self, record: &ScannedRecord<'_>) -> Option<bool> {
        let headers = record.headers().map(|header| (header.name, header.value));
        let contents = Contents::new(record.key(), record.value(), headers, self.traces);
        let identity = Identity::new(record.event_id(), contents);
        let rows: Vec<Expected> = self.rows.iter().filter(|row| row.identity == identity).cloned().collect();
        if rows.is_empty() {
            return None;
        }
        let found = Found {
            identity,
            contents,
            topic: self.topics.find(record.topic()).unwrap_or(OTHER_TOPIC),
            partition: record.partition(),
            offset: record.offset(),
            timestamp_ms: record.created_ms(),
            behind: false,
            without_value: record.headers().any(|header| header.name == VALUE_OMITTED_HEADER),
        };
        let (topics, dead_letters) = (Topics::default(), self.dead_letters);
        let mut comparison =
            Comparison { topics, dead_letters, slot_has_passed: true, tally: Tally::default() };
        Some(!comparison.compare(rows, vec![found]).sent.is_empty())
    }
}
