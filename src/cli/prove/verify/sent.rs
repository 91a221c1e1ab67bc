//! Rows of an outbox that are in Kafka, by the comparison of `verify`, for `outboxd move`.

use std::collections::HashSet;
use std::sync::Arc;

use super::error::VerifyError;
use super::plan::Plan;
use super::reach_kafka;
use super::records::RecordsRead;
use super::scratch::{RANGES, Scratch, Spill};
use super::sides::{ReadRows, Sides};
use crate::cli::shell::notice::Notice;
use crate::cli::shell::progress::Progress;
use crate::postgres::{Sql, TlsSetup};
use crate::relay::{Capture, RelayParts};
use crate::verification::{
    Comparison, Expected, Finding, Found, Part, Problem, RowName, RowPlace, Tally, Topics,
};

/// Question.
pub(in crate::cli) struct SentQuestion<'q> {
    pub(in crate::cli) parts: &'q Arc<RelayParts>,
    pub(in crate::cli) sql: &'q Sql,
    pub(in crate::cli) capture: Capture,
    /// `application_name` of the sessions.
    pub(in crate::cli) application: &'static str,
    /// Further topics that may have the records of the rows: a record there counts as if it were in the row's
    /// own topic.
    pub(in crate::cli) other_topics: &'q [String],
    /// The topics are read from this time on, in milliseconds since 1970.
    pub(in crate::cli) since_ms: Option<i64>,
}

/// One row, and whether it is in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Presence {
    /// Its record or its dead letter exists.
    Sent,
    /// Several records exist.
    Repeated,
    /// No record has its topic, id, key, value and headers.
    Unsent,
    /// There is one with other headers and the same contents: of another configuration, or of another service.
    OtherHeaders,
}

/// Records that were read of Kafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct TopicsLooked {
    pub(in crate::cli) topics: Vec<String>,
    pub(in crate::cli) records: u64,
    /// True if a topic has forgotten its first records.
    pub(in crate::cli) is_cut: bool,
}

impl SentQuestion<'_> {
    /// Calls `each` for each row.
    pub(in crate::cli) async fn ask(
        self,
        progress: &Progress,
        mut each: impl FnMut(&RowName, Presence),
    ) -> Result<TopicsLooked, VerifyError> {
        let Self { parts, sql, capture, application, other_topics, since_ms } = self;
        let notice = Notice::of_kafka(progress, &parts.kafka);
        reach_kafka(Arc::clone(parts)).await?;
        drop(notice);
        let plan = Plan::whole(sql, parts, capture).await?;
        let scratch = Scratch::new(None)?;
        let sides = Sides { parts, plan: &plan, scratch: &scratch, progress };
        let tls = TlsSetup::new(&parts.postgres.server)?;
        let ReadRows { rows, topics, .. } = sides.read_rows(sql, &tls, application).await?;
        let RecordsRead { topics: read, records, .. } =
            sides.read_records(topics, other_topics, since_ms).await?;
        let dead_letters = sides.dead_letters(&read.list);
        // No excuse: what is not there may have to be sent.
        let (topics, tally) = (Topics::default(), Tally::default());
        let comparison = Comparison { topics, dead_letters, slot_has_passed: true, tally };
        let judge = Judge { comparison, counts_elsewhere: !other_topics.is_empty() };
        judge.all(rows, records, progress, &mut each).await?;
        let is_cut = read.partitions.iter().any(|partition| partition.low > 0);
        Ok(TopicsLooked { topics: read.list.names, records: read.count, is_cut })
    }
}

struct Judge {
    comparison: Comparison,
    counts_elsewhere: bool,
}

impl Judge {
    async fn all(
        mut self,
        mut rows: Spill<Expected>,
        mut records: Spill<Found>,
        progress: &Progress,
        each: &mut impl FnMut(&RowName, Presence),
    ) -> Result<(), VerifyError> {
        progress.begin("comparing", Some(RANGES.end));
        for range in RANGES {
            self.some(rows.take(range)?, records.take(range)?, each);
            progress.step();
            // A signal is received here.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Compares all rows and records of some identities.
    fn some(&mut self, rows: Vec<Expected>, records: Vec<Found>, each: &mut impl FnMut(&RowName, Presence)) {
        let names: Vec<RowName> = rows.iter().map(|row| row.row.clone()).collect();
        let compared = self.comparison.compare(rows, records);
        let of = |wanted: &dyn Fn(&Problem) -> bool| -> HashSet<RowPlace> {
            let findings = compared.findings.iter().filter(|finding| wanted(&finding.problem));
            findings.filter_map(|Finding { row, .. }| Some(row.as_ref()?.at())).collect()
        };
        let repeated = of(&|problem| matches!(problem, Problem::Repeated { .. }));
        let other_headers =
            of(&|problem| matches!(problem, Problem::Changed { parts } if parts.are_only(Part::Headers)));
        let elsewhere = of(&|problem| *problem == Problem::OtherTopic);
        let sent: HashSet<RowPlace> = compared.sent.iter().copied().collect();
        for name in names {
            let at = name.at();
            let is_sent = sent.contains(&at) || self.counts_elsewhere && elsewhere.contains(&at);
            let presence = match (is_sent, repeated.contains(&at)) {
                (false, _) if other_headers.contains(&at) => Presence::OtherHeaders,
                (false, _) => Presence::Unsent,
                (true, true) => Presence::Repeated,
                (true, false) => Presence::Sent,
            };
            each(&name, presence);
        }
    }
}
