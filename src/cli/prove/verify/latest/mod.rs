//! The same question for change events: is the last record of each key as its row, and that of a deleted row a delete?
//!
//! ```text
//! probe ─▶ rows (PostgreSQL, one snapshot) ─▶ slot ─▶ changes (Kafka) ─▶ compare ─▶ report
//! ```
//!
//! The probe makes records of a row of nulls in several ways. Parts that differ between them are no part of the row, and are not
//! compared. So transforms may do what they like to a row, as long as they do the same each time.

mod changes;
mod outbox;
mod probe;
mod render;
mod rows;

use super::compare::Entries;
use super::error::VerifyError;
use super::plan::{estimate, share_of};
use super::records::{EventFinder, RecordReader, RecordsRead};
use super::report::{Names, Report};
use super::rows::TopicList;
use super::scratch::{Scratch, Spill};
use super::summary::Summary;
use super::{Verification, absent_topics, compare, slot, topics};
use crate::change::ChangeEvents;
use crate::cli::args::VerifyArgs;
use crate::outbox::EventRouter;
use crate::postgres::{Sql, TableFacts, TlsSetup};
use crate::relay::Capture;
use crate::verification::{
    Comparison, Latest, OrderCheck, Positions, ReadSnapshot, Row, Tally, TraceHeaders,
};
use changes::ChangeFinder;
use outbox::OutboxRows;
use probe::{Captured, Table};
use rows::TableReader;

/// Note about what cannot be verified where updates are not sent.
const UNTOLD_UPDATES: &str = "skipped.operations has u: the values of rows that differ from their record were not checked; an \
                              update of a key leaves the new key missing and the old one not deleted";

/// Results of reading the tables, and the rules of the comparison.
struct Parts<'s> {
    tables: Vec<Table>,
    topics: TopicList,
    rows: Spill<Row>,
    dropped: u64,
    slot: slot::SlotPosition,
    share: Option<u64>,
    scratch: &'s Scratch,
}

impl Verification<'_> {
    /// Compares the rows of all tables with the last records of their keys, and those of outboxes with the records of their ids.
    /// Returns whether nothing is wrong.
    pub(super) async fn run_latest(
        &self,
        changes: &ChangeEvents,
        capture: Capture,
        notes: Vec<String>,
        sql: &Sql,
        tls: &TlsSetup,
    ) -> Result<bool, VerifyError> {
        refuse(self.args)?;
        let scratch = Scratch::new(self.args.scratch.as_deref())?;
        let mut reader = self.reader(changes, &scratch);
        for facts in capture.tables {
            let captured = Captured::describe(changes, sql, facts).await?;
            if captured.is_outbox() {
                reader.outbox.tables.push(captured.into());
            } else {
                let table = Table::probe(changes, sql, captured, &mut reader.renderer).await?;
                reader.add(table)?;
            }
        }
        let share = share_of(sql, self.args.sample, reader.facts().map(count)).await?;
        (reader.share, reader.outbox.share) = (share, share);
        self.progress.begin("reading rows", estimate(sql, reader.facts()).await);
        let snapshot = reader.read(sql, tls).await?;

        let patience = std::time::Duration::from_secs(self.args.wait);
        let name = &self.parts.postgres.slot.name;
        let slot = slot::wait(sql, name, snapshot.after, patience, &self.progress).await?;
        let TableReader { tables, topics, rows, dropped, outbox, .. } = reader;
        if let Some(topic) = outbox.topics.names.iter().find(|name| topics.find(name).is_some()) {
            let outboxes = outbox.tables.iter().map(|table| full_name(&table.facts)).collect();
            let tables = tables.iter().map(|table| full_name(&table.facts)).collect();
            return Err(VerifyError::SharedTopic { topic: topic.clone(), outboxes, tables });
        }
        let found = Parts { tables, topics, rows, dropped, slot, share, scratch: &scratch };
        let mut report = Report::begin(Names::none(), self.args.json, self.progress.clone());
        let (only_outbox, has_outbox) = (found.tables.is_empty(), !outbox.tables.is_empty());
        let mut summary = match only_outbox {
            true => None,
            false => Some(self.compare_tables(sql, snapshot, found, &mut report).await?),
        };
        if has_outbox {
            let counted = self.compare_outbox(sql, outbox, slot, &scratch, &mut report).await?;
            match &mut summary {
                Some(summary) => summary.outbox = Some(Box::new(counted)),
                None => summary = Some(counted),
            }
        }
        let Some(mut summary) = summary else { return Err(VerifyError::MessagesOnly) };
        summary.notes.extend(notes);
        let is_clean = summary.is_clean();
        report.end(&summary);
        Ok(is_clean)
    }

    fn reader<'r>(&'r self, changes: &'r ChangeEvents, scratch: &Scratch) -> TableReader<'r> {
        let outbox = OutboxRows::new(scratch.spill("events"), traces(changes));
        TableReader::new(&self.parts, changes, &self.progress, scratch.spill("rows"), outbox)
    }

    async fn compare_tables(
        &self,
        sql: &Sql,
        snapshot: ReadSnapshot,
        parts: Parts<'_>,
        report: &mut Report,
    ) -> Result<Summary, VerifyError> {
        let Parts { tables, topics: list, rows, dropped, slot, share, scratch } = parts;
        let records = RecordReader {
            options: self.parts.kafka.clone(),
            topics: list,
            since_ms: None,
            share,
            records: scratch.spill("records"),
            finder: ChangeFinder::new(&tables, snapshot),
            progress: self.progress.clone(),
        };
        let RecordsRead { topics: read, records, finder } = records.read(&self.parts.registries).await?;
        let deletes = self.untold_deletes(&tables, dropped);
        let tells_updates = !self.parts.relay.skipped.update;
        let comparison = Latest {
            topics: topics::states(&self.parts.kafka, &read).await?,
            slot_has_passed: slot == slot::SlotPosition::Passed,
            tells_deletes: deletes.is_none(),
            tells_updates,
            truncated: finder.truncated,
            placeholders: tables.iter().map(|table| table.placeholders.clone()).collect(),
            unset: tables.iter().map(|table| table.unset.clone()).collect(),
            tally: Tally::default(),
        };
        let order = match finder.with_lsn {
            0 => Err("no record has the LSN of its change".to_owned()),
            with_lsn => Ok(format!("the LSN of {with_lsn} of {} records", read.count)),
        };
        let updates = (!tells_updates).then(|| UNTOLD_UPDATES.to_owned());
        let notes = deletes.into_iter().chain(updates).chain(absent_topics(&read)).collect();
        let fields = tables.iter().flat_map(|table| table.names.clone()).collect();
        let facts = tables.iter().map(|table| &table.facts);
        report.name_by(Names { fields, ..names(sql, facts, &read.list.names).await? });
        let tally = compare::compare_latest(comparison, rows, records, report, &self.progress).await?;
        Ok(Summary { tally, latest: true, order, slot, whole: share.is_none(), notes, outbox: None })
    }

    async fn compare_outbox(
        &self,
        sql: &Sql,
        outbox: OutboxRows,
        slot: slot::SlotPosition,
        scratch: &Scratch,
        report: &mut Report,
    ) -> Result<Summary, VerifyError> {
        let OutboxRows { tables, topics: list, rows, share, traces, dropped } = outbox;
        let records = RecordReader {
            options: self.parts.kafka.clone(),
            topics: list,
            since_ms: None,
            share,
            records: scratch.spill("event-records"),
            finder: EventFinder { positions: Positions::default(), traces },
            progress: self.progress.clone(),
        };
        let RecordsRead { topics: read, records, finder } = records.read(&self.parts.registries).await?;
        let comparison = Comparison {
            topics: topics::states(&self.parts.kafka, &read).await?,
            dead_letters: None,
            slot_has_passed: slot == slot::SlotPosition::Passed,
            tally: Tally::default(),
        };
        let order = match finder.positions.seen() {
            0 => Err("no record has the header outboxd.position (outboxd.identity.headers=true)".to_owned()),
            seen => Ok(format!("the header outboxd.position of {seen} of {} records", read.count)),
        };
        let left_out = (dropped > 0).then(|| {
            format!(
                "the transforms leave {dropped} rows of the outbox out: whether they are sent was not checked"
            )
        });
        let letters = self
            .dead_letter_topic()
            .map(|topic| format!("{topic} was not looked at: rows that went there count as missing"));
        let notes = left_out.into_iter().chain(letters).chain(absent_topics(&read)).collect();
        report.name_by(names(sql, tables.iter().map(|table| &table.facts), &read.list.names).await?);
        let entries = Entries { rows, records, orders: scratch.spill("event-order") };
        let tally = compare::compare(comparison, entries, UNORDERED, report, &self.progress).await?;
        Ok(Summary { tally, latest: false, order, slot, whole: share.is_none(), notes, outbox: None })
    }

    /// Returns the reason for which deleted rows without a delete record are not searched for.
    fn untold_deletes(&self, tables: &[Table], dropped: u64) -> Option<String> {
        let reason = if self.parts.relay.skipped.delete {
            "skipped.operations has d".to_owned()
        } else if dropped > 0 {
            format!("the transforms leave {dropped} rows out")
        } else if !tables.iter().all(|table| table.tells_deletes) {
            "the transforms leave deletes out".to_owned()
        } else {
            return None;
        };
        Some(format!("{reason}: whether deleted rows are deleted in the topics was not checked"))
    }
}

/// Nothing shows the order of rows.
const UNORDERED: OrderCheck = OrderCheck { slack: 0, tells_late: false };

/// Returns the treatment of the headers of spans, which differ at each conversion.
fn traces(changes: &ChangeEvents) -> TraceHeaders {
    let has_spans = changes.event_routers().any(EventRouter::has_spans);
    if has_spans { TraceHeaders::Skipped } else { TraceHeaders::Compared }
}

fn count(facts: &TableFacts) -> String {
    format!("SELECT count(*) FROM {}", facts.quoted())
}

fn full_name(facts: &TableFacts) -> String {
    format!("{}.{}", facts.schema, facts.name)
}

/// Refuses options that cannot be applied.
fn refuse(args: &VerifyArgs) -> Result<(), VerifyError> {
    let options = [
        ("--since", args.since.is_some()),
        ("--until", args.until.is_some()),
        ("--time-column", args.time_column.is_some()),
        ("--order-by", args.order_by.is_some()),
    ];
    let Some((option, _)) = options.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    Err(VerifyError::Usage {
        problem: format!(
            "{option} is for outbox tables: of other tables the last record of each key is compared"
        ),
        fix: "leave it out; --sample looks at a part of the keys".to_owned(),
    })
}

async fn names<'t>(
    sql: &Sql,
    tables: impl Iterator<Item = &'t TableFacts>,
    topics: &[String],
) -> Result<Names, VerifyError> {
    let places = sql.tables().await?.iter().map(|table| (table.oid, full_name(table))).collect();
    Ok(Names { tables: tables.map(full_name).collect(), places, topics: topics.to_vec(), ..Names::none() })
}
