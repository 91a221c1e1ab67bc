//! `outboxd.cleanup.*` inside `run`: when rows are looked at, and why they are not.

mod letters;
mod partitions;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;
use tokio::time;
use tokio_util::sync::CancellationToken;

use crate::cleanup::{
    Archive, Busy, ConvertError, Converted, Horizon, Partitions, Pass, PassError, Tree, captured_archive,
    doubts, leaves,
};
use crate::error::chain;
use crate::postgres::{Error, Sql, TableFacts, TlsSetup};
use crate::relay::capture::captured::CapturedTables;
use crate::relay::capture::preflight::{Capture, application};
use crate::relay::options::ProcessingFailure;
use crate::relay::parts::RelayParts;
use crate::telemetry::{Metrics, Status};

pub(crate) use letters::{OnlyCopies, ValuelessDeadLetters};
pub(crate) use partitions::is_captured;

/// Interval between two queries for the slot's confirmed position.
const CONFIRMED_INTERVAL: Duration = Duration::from_secs(1);

/// Default of pgoutput's option `origin`.
const ANY_ORIGIN: &str = "any";

/// Reasons why rows of this configuration are never taken away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CleanupObstacle {
    /// Deletes would be events.
    #[error("rows become change events: a row that is deleted is an event too")]
    Changes,
    /// Skipped rows are in the table only.
    #[error("rows that cannot be sent are skipped, and would be deleted like those that are sent")]
    Tolerates,
    /// Rows that were replicated from elsewhere are not in the stream.
    #[error(
        "slot.stream.params leaves rows out of the stream by their origin: they would be deleted like those that are sent"
    )]
    ExcludesOrigins,
    /// Rows that are older than the slot may never have been sent.
    #[error(
        "rows may be there that the slot never brought: from before it was made, or skipped with outboxd.position.accept"
    )]
    BeforeSlot,
}

impl CleanupObstacle {
    /// Returns the fix.
    pub(crate) const fn fix(&self) -> &'static str {
        match self {
            Self::Changes => {
                "cleanup is for an outbox that one EventRouter alone sends, in a configuration of its own"
            }
            Self::Tolerates => {
                "set errors.deadletterqueue.topic.name, which stores them, and event.processing.failure.handling.mode=fail"
            }
            Self::ExcludesOrigins => "take origin out of slot.stream.params",
            Self::BeforeSlot => {
                "outboxd verify checks that every row has its record. If so, or if older rows need not be sent: \
                 outboxd.cleanup.before.slot=delete"
            }
        }
    }
}

/// Checks whether the configuration allows rows to be deleted.
pub(crate) fn suits(parts: &RelayParts) -> Result<(), CleanupObstacle> {
    if parts.route.outbox().is_none() {
        return Err(CleanupObstacle::Changes);
    }
    let skips_rows = parts.relay.tolerate_rows && parts.dead_letters.is_none();
    if skips_rows || parts.relay.unreadable_rows != ProcessingFailure::Fail || parts.relay.skipped.create {
        return Err(CleanupObstacle::Tolerates);
    }
    let leaves_out =
        |(name, value): &(String, String)| name.eq_ignore_ascii_case("origin") && value != ANY_ORIGIN;
    if parts.postgres.slot.stream_params.iter().any(leaves_out) {
        return Err(CleanupObstacle::ExcludesOrigins);
    }
    if !parts.relay.cleanup.before_slot {
        return Err(CleanupObstacle::BeforeSlot);
    }
    Ok(())
}

/// Deletes rows periodically, on a connection of its own, for as long as a session streams.
pub(in crate::relay) async fn run(
    parts: Arc<RelayParts>,
    tls: TlsSetup,
    status: Status,
    metrics: Metrics,
    captured: CapturedTables,
    stop: CancellationToken,
) {
    if !parts.relay.cleanup.enabled {
        return;
    }
    let suited = suits(&parts);
    if let Err(unsuited) = &suited {
        tracing::warn!(error = %unsuited, fix = unsuited.fix(), "outboxd.cleanup.enable deletes nothing");
        if parts.relay.cleanup.partitions_ahead == 0 {
            return;
        }
    }
    let letters = OnceCell::new();
    let cleaner = Cleaner {
        parts: &parts,
        tls: &tls,
        status: &status,
        metrics: &metrics,
        captured: &captured,
        letters: &letters,
        stop: &stop,
    };
    let mut connection = None;
    while !stop.is_cancelled() {
        let Some(done) = stop.run_until_cancelled(cleaner.once(&mut connection, suited.is_ok())).await else {
            return;
        };
        if let Err(error) = done {
            connection = None;
            tracing::warn!(error = chain(&error), fix = error.fix(), "cleanup failed; retrying");
        }
        if stop.run_until_cancelled(time::sleep(parts.relay.cleanup.interval)).await.is_none() {
            return;
        }
    }
}

fn report_busy(busy: Busy) {
    match busy {
        Busy::Lag(bytes) => tracing::info!(bytes, "cleanup waits: a standby is behind"),
        Busy::Transaction(age) => {
            tracing::info!(age_seconds = age.as_secs(), "cleanup waits: a transaction is old");
        }
    }
}

/// Inputs of a pass.
struct Cleaner<'c> {
    parts: &'c Arc<RelayParts>,
    tls: &'c TlsSetup,
    status: &'c Status,
    metrics: &'c Metrics,
    /// The tables that this process captures, with what the polls of the catalog have found.
    captured: &'c CapturedTables,
    /// Dead letters of earlier processes: a process that deletes rows writes none without its value.
    letters: &'c OnceCell<ValuelessDeadLetters>,
    stop: &'c CancellationToken,
}

impl Cleaner<'_> {
    /// Runs one pass. Partitions are created whether rows may be deleted or not.
    async fn once(&self, connection: &mut Option<Sql>, takes: bool) -> Result<(), PassError> {
        let (parts, options) = (self.parts, &self.parts.relay.cleanup);
        let sql = match connection.take().filter(|sql| !sql.is_closed()) {
            Some(sql) => sql,
            None => Sql::open(&parts.postgres.server, self.tls, &application(&parts.postgres)).await?,
        };
        let sql = &*connection.insert(sql);
        options.limit(sql).await?;
        let Some(capture) = self.capture(sql).await else { return Ok(()) };
        partitions::make(sql, options, &capture.tables).await?;
        if !takes {
            return Ok(());
        }
        self.convert().await?;
        let horizon = Horizon::take(sql).await?;
        self.wait(sql, horizon, Instant::now()).await?;
        let pass = Pass { sql, options, horizon, waits: &report_busy };
        // What is captured may have changed while we waited.
        let Some(capture) = self.capture(sql).await else { return Ok(()) };
        if let Some(doubt) = captured_archive(options.archive.as_ref(), &capture.tables) {
            tracing::warn!(reason = %doubt, "cleanup does nothing");
            return Ok(());
        }
        let letters = match self.letters.get_or_try_init(|| ValuelessDeadLetters::read(self.parts)).await {
            Ok(letters) => letters,
            Err(error) => {
                tracing::warn!(error = chain(&error), "cleanup waits: cannot read the dead letters");
                return Ok(());
            }
        };
        for table in &capture.tables {
            if let Some(copies) = letters.only_copies(sql, parts, table).await? {
                self.warn_of(&copies);
                continue;
            }
            if let Some(reason) = self.captured.suspicion_of(table.oid) {
                let table = format!("{}.{}", table.schema, table.name);
                tracing::warn!(
                    table,
                    reason,
                    "cleanup skips a table whose rows may be missing in the stream"
                );
                continue;
            }
            let doubts = doubts(sql, &parts.postgres.publication.name, table).await?;
            if let Some(doubt) = doubts.first() {
                let table = format!("{}.{}", table.schema, table.name);
                tracing::warn!(table, reason = %doubt, "cleanup skips a table");
                continue;
            }
            self.clean(&pass, table).await?;
        }
        Ok(())
    }

    /// Warns that dead letters refer to rows that are the only copies of their values.
    fn warn_of(&self, copies: &OnlyCopies) {
        let table = copies.table();
        let warning = format!("cleanup deletes no rows of {table}: {copies}. To fix: {}", OnlyCopies::FIX);
        if self.status.warn(warning.clone()) {
            tracing::warn!("{warning}");
        }
    }

    /// Makes Parquet files of what earlier passes, and processes that have ended, have left.
    async fn convert(&self) -> Result<(), PassError> {
        for Converted { segment, file } in self.parts.relay.cleanup.convert(false, self.stop).await? {
            let segment = segment.display();
            match file {
                Ok(None) | Err(ConvertError::Stopped) => {}
                Ok(Some(file)) => tracing::info!(file = %file.display(), "converted an archive to Parquet"),
                Err(error) => {
                    let error = chain(&error);
                    tracing::warn!(
                        file = %segment, error,
                        "cannot convert an archive to Parquet; its rows are safe"
                    );
                }
            }
        }
        Ok(())
    }

    /// Waits until the horizon is sent according to both this process and this server: a slot that was moved
    /// proves less. Rows that the publication excluded when they were written are in front of the horizon too: the catalog must have
    /// been polled since it was `taken`, without a reason to end the relay. Creates partitions meanwhile, because the wait can last
    /// while Kafka is away.
    async fn wait(&self, sql: &Sql, horizon: Horizon, taken: Instant) -> Result<(), Error> {
        let options = &self.parts.relay.cleanup;
        let mut looked = Instant::now();
        loop {
            let confirmed = sql.moment(&self.parts.postgres.slot.name).await?.confirmed;
            let is_sent = horizon.is_sent(confirmed, Some(self.status.snapshot().progress.frontier));
            if is_sent && self.captured.is_judged_since(taken) {
                return Ok(());
            }
            if looked.elapsed() >= options.interval
                && let Some(capture) = self.capture(sql).await
            {
                partitions::make(sql, options, &capture.tables).await?;
                looked = Instant::now();
            }
            time::sleep(CONFIRMED_INTERVAL).await;
        }
    }

    async fn capture(&self, sql: &Sql) -> Option<Capture> {
        match Capture::find(sql, self.parts).await {
            Ok(capture) => Some(capture),
            Err(error) => {
                tracing::warn!(
                    error = chain(&error),
                    "cleanup cannot read which tables are captured; retrying"
                );
                None
            }
        }
    }

    /// Cleans the partitions of a table, and the rows outside of those partitions.
    async fn clean(&self, pass: &Pass<'_>, table: &TableFacts) -> Result<(), PassError> {
        let tree = match pass.options.partitions {
            Partitions::Rows => None,
            Partitions::Drop | Partitions::Detach => Tree::look(pass.sql, table).await?,
        };
        if let Some(tree) = &tree {
            partitions::take(self.parts, pass, tree, self.metrics, self.stop).await?;
        }
        for leaf in leaves(pass.sql, table).await? {
            if tree.as_ref().is_some_and(|tree| tree.has(leaf.oid)) {
                continue;
            }
            let mut archive = Archive::open(pass.sql, pass.options, &leaf).await?;
            let counted = |rows| self.metrics.cleaned(rows, 0);
            let deleted = pass.delete(&leaf, &mut archive, self.stop, counted).await?;
            self.metrics.cleaned(0, deleted.yielded);
            if deleted.rows > 0 {
                tracing::info!(
                    table = leaf.name, rows = deleted.rows, lsn = %pass.horizon.lsn,
                    "deleted rows that have been sent"
                );
            }
        }
        Ok(())
    }
}
