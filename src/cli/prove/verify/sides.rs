//! Reads both sides of an outbox: its rows, and then the records that they may have become. Rows come first, so that a row that is sent
//! meanwhile does not appear as missing.

use std::sync::Arc;

use super::error::VerifyError;
use super::plan::Plan;
use super::records::{EventFinder, RecordReader, RecordsRead};
use super::rows::{RowReader, TopicList};
use super::scratch::{Scratch, Spill};
use crate::cli::shell::progress::Progress;
use crate::postgres::{Sql, TlsSetup};
use crate::relay::{DeadLetters, RelayParts};
use crate::verification::{Expected, Positions, TopicNumber};
use crate::wal::Lsn;

/// The two sides of a comparison.
#[derive(Clone, Copy)]
pub(super) struct Sides<'s> {
    pub(super) parts: &'s Arc<RelayParts>,
    pub(super) plan: &'s Plan,
    pub(super) scratch: &'s Scratch,
    pub(super) progress: &'s Progress,
}

/// The rows, as they were at one moment.
pub(super) struct ReadRows {
    pub(super) rows: Spill<Expected>,
    /// The topics that they lead to.
    pub(super) topics: TopicList,
    /// The end of the WAL at that moment.
    pub(super) wal_end: Lsn,
}

impl Sides<'_> {
    /// Reads the rows of all tables.
    pub(super) async fn read_rows(
        &self,
        sql: &Sql,
        tls: &TlsSetup,
        application: &str,
    ) -> Result<ReadRows, VerifyError> {
        self.progress.begin("reading rows", self.plan.estimate(sql).await);
        let mut reader = RowReader::new(self.parts, self.plan, self.progress, self.scratch.spill("rows"));
        let wal_end = reader.read(tls, application).await?;
        let RowReader { rows, topics, .. } = reader;
        Ok(ReadRows { rows, topics, wal_end })
    }

    /// Reads the records of the topics that rows lead to, of `others`, and the dead letters.
    pub(super) async fn read_records(
        &self,
        mut topics: TopicList,
        others: &[String],
        since_ms: Option<i64>,
    ) -> Result<RecordsRead<EventFinder>, VerifyError> {
        for topic in others.iter().map(String::as_str).chain(self.dead_letter_topic()) {
            topics.number(topic)?;
        }
        let reader = RecordReader {
            options: self.parts.kafka.clone(),
            topics,
            since_ms,
            share: self.plan.share,
            records: self.scratch.spill("records"),
            finder: EventFinder { positions: Positions::default(), traces: self.plan.traces },
            progress: self.progress.clone(),
        };
        reader.read(&self.parts.registries).await
    }

    /// Returns the dead-letter topic among those that were read.
    pub(super) fn dead_letters(&self, read: &TopicList) -> Option<TopicNumber> {
        read.find(self.dead_letter_topic()?)
    }

    fn dead_letter_topic(&self) -> Option<&str> {
        self.parts.dead_letters.as_ref().map(DeadLetters::topic)
    }
}
