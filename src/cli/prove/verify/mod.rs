//! `outboxd verify`: is the record of each committed row in Kafka, once, in order, with its bytes? It changes nothing.
//!
//! ```text
//! plan ─▶ rows (PostgreSQL, one snapshot) ─▶ slot (waits for the relay) ─▶ records (Kafka) ─▶ compare ─▶ report
//!              └── Expected ─▶ scratch ◀── Found ──┘                            ▲
//!                                 └──── one range of identities at a time ──────┘
//! ```
//!
//! The expected record of a row is made by the parts that `run` uses: the router, the converters, the registry. The
//! comparison itself is [`crate::verification`]. Tables whose changes are sent are looked at by [`latest`].

mod clock;
mod compare;
mod error;
mod latest;
mod named_rows;
mod near_misses;
mod plan;
mod records;
mod report;
mod rows;
mod scratch;
mod sent;
mod sides;
mod slot;
mod summary;
mod topics;

pub(in crate::cli) use error::VerifyError;
pub(in crate::cli) use named_rows::NamedRows;
pub(in crate::cli) use plan::keeps_commit_times;
pub(in crate::cli) use sent::{Presence, SentQuestion};

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::cli::args::VerifyArgs;
use crate::cli::run::assemble::assemble;
use crate::cli::shell::notice::Notice;
use crate::cli::shell::progress::Progress;
use crate::cli::shell::signals::Signals;
use crate::cli::{fail, print_message};
use crate::error::Exit;
use crate::postgres::{SnapshotMode, Sql, TableFacts, TlsSetup};
use crate::relay::{Capture, RelayParts};
use crate::verification::{Comparison, OrderCheck, Tally};
use clock::Order;
use compare::Entries;
use plan::Plan;
use records::{EventFinder, RecordsRead, TopicsRead};
use report::{Names, Report};
use scratch::Scratch;
use sides::{ReadRows, Sides};
use slot::SlotPosition;
use summary::Summary;

/// `application_name` of the command's sessions in `pg_stat_activity`.
const APPLICATION: &str = "outboxd verify";

/// Longest wait at the end for threads that still wait for a server.
const FAREWELL: Duration = Duration::from_millis(500);

/// Runs `outboxd verify`.
pub(in crate::cli) fn verify(args: &VerifyArgs) -> Exit {
    let parts = match assemble(&args.config) {
        Ok(assembly) => Arc::new(assembly.parts),
        Err(error) => return fail(&error),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            print_message(&format!("error: the runtime cannot be started: {error}"));
            return Exit::Failed;
        }
    };
    let progress = Progress::new();
    let outcome = runtime.block_on(interruptible(Verification { parts, args, progress: progress.clone() }));
    progress.end();
    runtime.shutdown_timeout(FAREWELL);
    match outcome {
        Some(Ok(true)) => Exit::Ok,
        Some(Ok(false)) => Exit::Failed,
        Some(Err(error)) => fail(&error),
        None => Exit::Interrupted,
    }
}

/// Runs until a signal. Temporary files are removed also when it is interrupted.
async fn interruptible(verification: Verification<'_>) -> Option<Result<bool, VerifyError>> {
    let Ok(mut signals) = Signals::install() else { return Some(verification.run().await) };
    tokio::select! {
        biased;
        // Nothing is half done that would have to be finished.
        () = signals.next() => None,
        outcome = verification.run() => Some(outcome),
    }
}

/// One run of the command.
struct Verification<'a> {
    parts: Arc<RelayParts>,
    args: &'a VerifyArgs,
    progress: Progress,
}

impl Verification<'_> {
    /// Returns whether nothing is wrong.
    async fn run(self) -> Result<bool, VerifyError> {
        let (parts, args) = (&self.parts, self.args);
        if parts.relay.skipped.create {
            return Err(VerifyError::NothingIsSent);
        }
        let tls = TlsSetup::new(&parts.postgres.server)?;
        let sql = Sql::open(&parts.postgres.server, &tls, APPLICATION).await?;
        let capture = Capture::find(&sql, parts).await?;
        if capture.tables.is_empty() {
            return Err(VerifyError::MessagesOnly);
        }
        let notice = Notice::of_kafka(&self.progress, &parts.kafka);
        reach_kafka(Arc::clone(parts)).await?;
        drop(notice);
        let notes = self.notes(&sql, &capture).await?;
        if let Some(changes) = parts.route.changes() {
            return self.run_latest(changes, capture, notes, &sql, &tls).await;
        }
        let plan = Plan::new(&sql, parts, capture, args).await?;
        let scratch = Scratch::new(args.scratch.as_deref())?;

        let sides = Sides { parts, plan: &plan, scratch: &scratch, progress: &self.progress };
        let ReadRows { rows, topics, wal_end } = sides.read_rows(&sql, &tls, APPLICATION).await?;
        let patience = Duration::from_secs(args.wait);
        let slot = slot::wait(&sql, &parts.postgres.slot.name, wal_end, patience, &self.progress).await?;
        let read = sides.read_records(topics, &[], plan.topics_since_ms).await?;

        let comparison = Comparison {
            topics: topics::states(&parts.kafka, &read.topics).await?,
            dead_letters: sides.dead_letters(&read.topics.list),
            slot_has_passed: slot == SlotPosition::Passed,
            tally: Tally::default(),
        };
        let (order, check) = judged_order(&plan, &read, args);
        let notes = notes.into_iter().chain(absent_topics(&read.topics)).collect();
        let names = names(&sql, &plan, &read).await?;
        let mut report = Report::begin(names, args.json, self.progress.clone());
        let entries = Entries { rows, records: read.records, orders: scratch.spill("order") };
        let tally = compare::compare(comparison, entries, check, &mut report, &self.progress).await?;
        let summary =
            Summary { tally, latest: false, order, slot, whole: plan.is_whole(), notes, outbox: None };
        let is_clean = summary.is_clean();
        report.end(&summary);
        Ok(is_clean)
    }

    fn dead_letter_topic(&self) -> Option<&str> {
        self.parts.dead_letters.as_ref().map(crate::relay::DeadLetters::topic)
    }

    /// Returns notes on what is not verified, and what is not sent by the user's own choice.
    async fn notes(&self, sql: &Sql, capture: &Capture) -> Result<Vec<String>, VerifyError> {
        let (parts, mut notes) = (&self.parts, capture.assumptions.clone());
        if parts.messages.is_some() {
            notes.push("logical messages are not checked: PostgreSQL does not store them".to_owned());
        }
        if parts.postgres.snapshot.mode == SnapshotMode::NoData {
            notes.push(
                "snapshot.mode does not send rows that are older than the slot, so they count as missing \
                 here: --since leaves them out"
                    .to_owned(),
            );
        }
        if !parts.postgres.snapshot.overrides.is_empty() {
            notes.push(
                "verify ignores snapshot.select.statement.overrides: rows that it excludes from \
                 a snapshot count as missing"
                    .to_owned(),
            );
        }
        notes.extend(near_misses::find(sql, parts, &capture.tables).await?);
        Ok(notes)
    }
}

/// Reaches Kafka with the producer, which gets the reason of a failed connection.
async fn reach_kafka(parts: Arc<RelayParts>) -> Result<(), VerifyError> {
    let asking = tokio::task::spawn_blocking(move || {
        parts.producer.await_broker(&parts.kafka, parts.kafka.connect_timeout)
    });
    asking.await.map_err(|_| VerifyError::Aborted)?.map(drop).map_err(VerifyError::from)
}

fn absent_topics(read: &TopicsRead) -> Option<String> {
    let absent = topics::absent(read);
    let some: Vec<_> = absent.iter().take(8).copied().collect();
    (!some.is_empty()).then(|| format!("{} of the topics do not exist: {}", absent.len(), some.join(", ")))
}

/// Returns the source of the order, and how rows are judged by it.
fn judged_order(
    plan: &Plan,
    read: &RecordsRead<EventFinder>,
    args: &VerifyArgs,
) -> (Result<String, String>, OrderCheck) {
    let by_position = || {
        format!(
            "the header outboxd.position of {} of {} records",
            read.finder.positions.seen(),
            read.topics.count
        )
    };
    let slack = plan.tables.iter().map(|table| table.order.slack()).max().unwrap_or_default();
    let of_rows = |tells_late| OrderCheck { slack, tells_late };
    if let Some(column) = &args.order_by {
        let mut by = format!("column \"{column}\"");
        if read.finder.positions.seen() > 0 {
            by.push_str(&format!(" and {}", by_position()));
        }
        return (Ok(by), of_rows(true));
    }
    if read.finder.positions.seen() > 0 {
        return (Ok(by_position()), of_rows(false));
    }
    if plan.tables.iter().all(|table| table.order == Order::CommitTime) {
        let by = "the commit times, for transactions of a key that are more than a second apart";
        return (Ok(by.to_owned()), of_rows(true));
    }
    let reason = "no record has the header outboxd.position (outboxd.identity.headers=true), \
                  track_commit_timestamp is off, and --order-by names no column that grows with each row of \
                  a key";
    (Err(reason.to_owned()), of_rows(false))
}

async fn names(sql: &Sql, plan: &Plan, read: &RecordsRead<EventFinder>) -> Result<Names, VerifyError> {
    let full = |table: &TableFacts| format!("{}.{}", table.schema, table.name);
    let places: HashMap<_, _> = sql.tables().await?.iter().map(|table| (table.oid, full(table))).collect();
    let tables = plan.tables.iter().map(|table| full(&table.facts)).collect();
    Ok(Names { tables, places, topics: read.topics.list.names.clone(), fields: HashMap::new() })
}
