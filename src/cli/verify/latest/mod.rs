//! The same question for change events: is the last record of each key as its row, and that of a deleted row a delete?
//!
//! ```text
//! probe ─▶ rows (PostgreSQL, one snapshot) ─▶ slot ─▶ changes (Kafka) ─▶ compare ─▶ report
//! ```
//!
//! The probe makes records of a row of nulls in several ways. What differs among them is no part of the row, and is not
//! compared. So transforms may do what they like to a row, as long as they do the same each time.

mod changes;
mod probe;
mod render;
mod rows;

use super::error::VerifyError;
use super::plan::{estimate, share_of};
use super::records::{RecordReader, RecordsRead};
use super::report::{Names, Report, Summary};
use super::scratch::Scratch;
use super::{Verification, absent_topics, compare, slot, topics};
use crate::change::ChangeEvents;
use crate::cli::args::VerifyArgs;
use crate::postgres::{Sql, TableFacts, TlsSetup};
use crate::relay::Capture;
use crate::verification::{Latest, Tally};
use changes::ChangeFinder;
use probe::Table;
use rows::TableReader;

impl Verification<'_> {
    /// Compares the rows of all tables with the last records of their keys.
    pub(super) async fn run_latest(
        &self,
        changes: &ChangeEvents,
        capture: Capture,
        notes: Vec<String>,
        (sql, tls): (&Sql, &TlsSetup),
    ) -> Result<Tally, VerifyError> {
        refuse(changes, self.args)?;
        if self.parts.relay.skipped.update {
            return Err(VerifyError::UpdatesAreSkipped);
        }
        let scratch = Scratch::new(self.args.scratch.as_deref())?;
        let mut reader = TableReader::new((&self.parts, changes), &self.progress, scratch.spill("rows"));
        for facts in capture.tables {
            let table = Table::probe(changes, sql, facts, &mut reader.renderer).await?;
            reader.add(table)?;
        }
        let counts = reader.tables.iter().map(|table| table.count());
        reader.share = share_of(sql, self.args.sample, counts).await?;
        let share = reader.share;
        let about = estimate(sql, reader.tables.iter().map(|table| &table.facts)).await;
        self.progress.begin("reading rows", about);
        let snapshot = reader.read(sql, tls).await?;

        let patience = std::time::Duration::from_secs(self.args.wait);
        let name = &self.parts.postgres.slot.name;
        let slot = slot::wait(sql, name, snapshot.after, patience, &self.progress).await?;
        let TableReader { tables, topics: list, rows, dropped, .. } = reader;
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
        let comparison = Latest {
            topics: topics::states(&self.parts.kafka, &read).await?,
            slot_has_passed: slot == slot::SlotPosition::Passed,
            tells_deletes: deletes.is_none(),
            truncated: finder.truncated,
            placeholders: tables.iter().map(|table| table.placeholders.clone()).collect(),
            tally: Tally::default(),
        };
        let order = match finder.with_lsn {
            0 => Err("no record says where its change stands in the WAL".to_owned()),
            with_lsn => Ok(format!("the LSN that {with_lsn} of {} records tell", read.count)),
        };
        let notes = notes.into_iter().chain(deletes).chain(absent_topics(&read)).collect();
        let mut report = Report::begin(names(sql, &tables, &read.list.names).await?, self.args.json, {
            self.progress.clone()
        });
        let tally = compare::compare_latest(comparison, rows, records, &mut report, &self.progress).await?;
        let whole = share.is_none();
        report.end(&Summary { tally: tally.clone(), latest: true, order, slot, whole, notes });
        Ok(tally)
    }

    /// Why it is not looked for rows that are gone and whose records do not say so.
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

/// What cannot be answered.
fn refuse(changes: &ChangeEvents, args: &VerifyArgs) -> Result<(), VerifyError> {
    if changes.has_event_router() {
        return Err(VerifyError::RouterAmongTransforms);
    }
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
        cure: "leave it out; --sample looks at a part of the keys".to_owned(),
    })
}

async fn names(sql: &Sql, tables: &[Table], topics: &[String]) -> Result<Names, VerifyError> {
    let full = |table: &TableFacts| format!("{}.{}", table.schema, table.name);
    let places = sql.tables().await?.iter().map(|table| (table.oid, full(table))).collect();
    let fields = tables.iter().flat_map(|table| table.names.clone()).collect();
    let tables = tables.iter().map(|table| full(&table.facts)).collect();
    Ok(Names { tables, places, topics: topics.to_vec(), fields })
}
