//! Sends the rows that are in the captured tables before the stream begins.

pub(super) mod asking;
pub(super) mod chunk_reader;
mod keeper;
mod plan;
mod reading;
mod tables;
mod unacknowledged;

use std::collections::HashMap;
use std::mem;
use std::time::{Duration, Instant};

use tokio::time::{sleep_until, timeout};

use super::capture::resolution::{read_whole, relation_of};
use super::capture::resolver::Resolver;
use super::capture::selected;
use super::capture::selected::Selected;
use super::capture::table::Table;
use super::delivery::exactly_once::{Batch, Urgency};
use super::error::Error;
use super::parts::RelayParts;
use super::pipeline::core::{
    CAUSE_TIMEOUT, Core, Drain, Draining, Ending, Event, Limits, Source, Taken, Then, Turn, Wanted,
};
use super::pipeline::feed::Feed;
use super::pipeline::notifier::Notifier;
use super::progress::acknowledged::Acknowledged;
use super::time::clock::Now;
use crate::connect::column::ColumnDescription;
use crate::error::{Class, Diagnose};
use crate::kafka::Transport;
use crate::pgoutput::{Begin, Commit, Message, Tuple};
use crate::postgres::{SnapshotReader, SnapshotRow, TableFacts, TlsSetup};
use crate::relay::snapshot::asking::{PendingAnswer, answered, ask};
use crate::replication::Feedback;
use crate::signal::{Notification, SnapshotStatus};
use crate::telemetry::{Component, Metrics, Status, TablesRead};
use crate::wal::{Lsn, Oid, PgTimestamp, Xid};
use crate::wire::READ_BYTES;

pub(super) use keeper::SnapshotProgressStore;
use unacknowledged::Unacknowledged;

/// Interval in which a long snapshot logs its progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Interval in which a waiting snapshot checks for other events.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Sends the rows that are in the captured tables, as one transaction that committed at `at`.
pub(super) struct Snapshot<'s> {
    parts: &'s RelayParts,
    status: &'s Status,
    resolver: Resolver<'s>,
    core: Core<'s>,
    at: Lsn,
    /// Mappings of columns, for tables whose rows are not read as they are sent.
    selected: HashMap<Oid, Selected>,
    rows: u64,
    read: TablesRead,
    told: Instant,
    /// The question that the core waits for.
    answer: Option<PendingAnswer<'s>>,
    /// The rows of an outbox that are sent again when Kafka has refused one, if the snapshot is to go on then.
    kept: Option<Unacknowledged>,
}

/// Settings that the connections of a snapshot share.
pub(super) struct Site<'s> {
    pub(super) tls: &'s TlsSetup,
    pub(super) application: &'s str,
    /// Exported snapshot that they see; `None` is the present state.
    pub(super) exported: Option<&'s str>,
}

/// The row that is read, until the core has taken it.
struct NextRow<'r, 'd> {
    at: Lsn,
    table: Oid,
    row: Option<&'r Tuple<'d>>,
}

impl Source for NextRow<'_, '_> {
    fn take_next<T: Transport>(
        &mut self,
        feed: &mut Feed<'_, T>,
        _: &mut Feedback,
        now: Now,
    ) -> Result<Option<Taken>, Error> {
        let Some(row) = self.row else { return Ok(None) };
        let outcome = feed.insert(self.at, self.table, row, now)?;
        // One that lacks something is given again.
        self.row = self.row.filter(|_| outcome.is_lack());
        Ok(Some(Taken::Message { lsn: self.at, outcome }))
    }
}

impl<'s> Snapshot<'s> {
    pub(super) fn new(resolver: Resolver<'s>, at: Lsn, batch: Option<Batch>) -> Self {
        let Resolver { parts, status, metrics, .. } = resolver;
        let goes_on = parts.dead_letters.is_some() && parts.route.outbox().is_some() && batch.is_none();
        let mut core = new_core(parts, metrics, at);
        core.feed.out.flight.in_transactions(batch);
        if let Some(dead_letters) = &parts.dead_letters {
            dead_letters.begin_snapshot();
            metrics.keys_held(dead_letters.keys_held());
        }
        Self {
            parts,
            status,
            resolver,
            core,
            at,
            selected: HashMap::new(),
            rows: 0,
            read: TablesRead::default(),
            told: Instant::now(),
            answer: None,
            kept: goes_on.then(Unacknowledged::default),
        }
    }

    /// Reads every table and returns how many rows were sent, once the last of them is acknowledged. After a failure it
    /// waits until what is on its way has come back: the next attempt must not take these reports for its own.
    pub(super) async fn send(
        mut self,
        tables: &[TableFacts],
        site: &Site<'_>,
        keeper: Option<&mut SnapshotProgressStore<'_>>,
    ) -> Result<u64, Error> {
        let outcome = self.send_rows(tables, site, keeper).await;
        let cause = self.returned(outcome.as_ref().err()).await?;
        cause.map_or(outcome, Err)?;
        Ok(self.rows)
    }

    async fn send_rows(
        &mut self,
        tables: &[TableFacts],
        site: &Site<'_>,
        keeper: Option<&mut SnapshotProgressStore<'_>>,
    ) -> Result<(), Error> {
        let filter = &self.parts.tables;
        // Debezium counts the signalling table among them, and does not read it.
        let captured = |table: &&TableFacts| filter.is_in_snapshot(table) || filter.is_signals(table);
        let mut tables: Vec<_> = tables.iter().filter(captured).collect();
        filter.order().arrange(&mut tables, |table| full_name(table));
        let captured: Vec<_> = tables.iter().map(|table| full_name(table)).collect();
        tables.retain(|table| filter.is_in_snapshot(table));
        let commit_time = Now::read().postgres();
        let begin = |xid| Message::Begin(Begin { final_lsn: self.at, commit_time, xid });
        if self.parts.route.outbox().is_some() {
            let options = &self.parts.postgres;
            let reader = SnapshotReader::open(options, site.tls, site.application, site.exported).await?;
            // Records of an outbox do not contain the transaction.
            self.take(begin(Xid(0)))?;
            self.send_outbox(&tables, reader).await?;
        } else {
            self.arrange(&mut tables).await?;
            let (readers, xid) = self.open_readers(site).await?;
            self.take(begin(xid))?;
            self.notify(SnapshotStatus::Started, Vec::new());
            let mut names = captured.clone();
            names.sort_unstable();
            self.notify(SnapshotStatus::CollectionsResolved, vec![("data_collections", names.join(","))]);
            self.send_tables(&tables, captured.join(","), readers, keeper).await?;
            self.notify(SnapshotStatus::Completed, Vec::new());
            self.send_notifications().await?;
        }
        self.report_tables(TablesRead { is_complete: true, ..self.read });
        self.take(Message::Commit(Commit { commit_lsn: self.at, end_lsn: self.at, commit_time }))
    }

    /// Sends one table after the other and each row after the one before it, in the order of outbox events:
    /// straight from the socket.
    async fn send_outbox(&mut self, tables: &[&TableFacts], mut reader: SnapshotReader) -> Result<(), Error> {
        for (read, table) in tables.iter().enumerate() {
            let count = |tables: usize| u64::try_from(tables).unwrap_or(u64::MAX);
            self.read.tables = count(tables.len());
            self.read.remaining = count(tables.len().saturating_sub(read));
            self.status.read_tables(self.read, Instant::now());
            let columns = self.resolver.sql.describe(table.oid).await?;
            reader.select(&self.parts.postgres.snapshot.statement(table, &columns)).await?;
            self.read(&mut reader, table, &columns).await.map_err(|error| self.or_grant(error, table))?;
            self.end_parcel().await?;
        }
        self.settle().await?;
        self.report_tables(TablesRead { remaining: 0, rows: self.rows, ..self.read });
        Ok(())
    }

    fn or_grant(&self, error: Error, table: &TableFacts) -> Error {
        match error {
            Error::Postgres(error) => {
                Error::Postgres(error.or_grant("SELECT", &table.quoted(), &self.parts.postgres.server.user))
            }
            error => error,
        }
    }

    async fn read(
        &mut self,
        reader: &mut SnapshotReader,
        table: &TableFacts,
        columns: &[ColumnDescription],
    ) -> Result<(), Error> {
        loop {
            match reader.next().await? {
                SnapshotRow::Columns(names) => self.bind(table, columns, &names)?,
                SnapshotRow::Row(row) => self.send_kept(table.oid, &row).await?,
                SnapshotRow::End => break,
            }
        }
        Ok(reader.check(table.oid).await?)
    }

    /// Binds a table whose rows were selected with these names. Change events have all columns of the table.
    fn bind(
        &mut self,
        table: &TableFacts,
        columns: &[ColumnDescription],
        names: &[String],
    ) -> Result<(), Error> {
        let shown: Vec<_> = match self.parts.route.changes() {
            Some(_) => columns.iter().map(read_whole).collect(),
            None => selected::of_table(columns, names).cloned().collect(),
        };
        selected::report_others(table, columns, names);
        if let Some(selected) = Selected::new(&shown, names) {
            self.selected.insert(table.oid, selected);
        }
        let bound = self.parts.route.bind(&relation_of(table, &shown), &shown)?;
        self.core.feed.describe(table.oid, Table::Captured(bound));
        Ok(())
    }

    async fn send_counted(&mut self, table: Oid, row: &Tuple<'_>) -> Result<(), Error> {
        self.rows = self.rows.saturating_add(1);
        self.send_arranged(table, row).await
    }

    async fn send_arranged(&mut self, table: Oid, row: &Tuple<'_>) -> Result<(), Error> {
        let arranged = self.selected.get(&table).map(|selected| selected.row(row));
        self.send_row(table, arranged.as_ref().unwrap_or(row)).await
    }

    /// Hands a row over, once there is room for it and what it needs is there.
    async fn send_row(&mut self, table: Oid, row: &Tuple<'_>) -> Result<(), Error> {
        let mut next = NextRow { at: self.at, table, row: Some(row) };
        // There is always more.
        let mut event = Event::Read(READ_BYTES);
        loop {
            let now = Now::read();
            let turn = self.core.turn(now, mem::take(&mut event), Wanted::Stream, &mut next)?;
            self.report(&turn, now);
            if let Some(need) = turn.need {
                self.answer = Some(ask(&self.resolver, need));
            }
            if next.row.is_none() && !self.core.is_waiting() {
                return Ok(());
            }
            event = self.wait(turn.then).await;
        }
    }

    fn notify(&mut self, status: SnapshotStatus, data: Vec<(&'static str, String)>) {
        self.core.feed.notify(Notification::initial(status, data), Now::read());
    }

    /// Hands over all waiting notifications.
    async fn send_notifications(&mut self) -> Result<(), Error> {
        let mut event = Event::None;
        loop {
            let then = self.turn_aside(mem::take(&mut event))?;
            let is_told = self.core.feed.notifier.as_ref().is_none_or(Notifier::is_done);
            if is_told && !self.core.is_waiting() {
                return Ok(());
            }
            event = self.wait(then).await;
        }
    }

    async fn wait(&mut self, then: Then) -> Event {
        let Then::Wait { answers, until, .. } = then else { return Event::None };
        tokio::select! {
            biased;
            // Once it is there, nothing else matters.
            answer = answered(&mut self.answer), if answers => {
                self.answer = None;
                Event::Answer(answer)
            }
            () = self.parts.producer.deliveries().arrived() => Event::None,
            () = sleep_until(until.into()) => Event::None,
        }
    }

    /// Waits until nothing is on its way. Returns what was behind a failure, if that is known.
    async fn returned(&mut self, failure: Option<&Error>) -> Result<Option<Error>, Error> {
        // Nothing follows a definite error that could take these reports for its own, and Kafka may be away for long.
        let ends = failure.is_some_and(|error| error.class() == Class::Definite && !error.is_standby());
        let limits = Limits { cause: CAUSE_TIMEOUT, rest: ends.then_some(self.parts.relay.shutdown_timeout) };
        let urgency = if failure.is_some() { Urgency::Over } else { Urgency::Now };
        let mut ending = Ending::new(failure, &self.core, urgency, limits, Now::read());
        loop {
            let now = Now::read();
            let Drain { obstacle, then, .. } = ending.turn(&mut self.core, now)?;
            self.report_kafka(obstacle.as_deref(), now);
            self.status.tick_idle(now.instant);
            match then {
                Draining::Wait => {}
                Draining::Purge => self.parts.producer.purge(),
                Draining::Done | Draining::Late => return Ok(ending.cause(&mut self.core, now)),
            }
            timeout(LOOK_INTERVAL, self.parts.producer.deliveries().arrived()).await.ok();
        }
    }

    fn take(&mut self, message: Message<'_>) -> Result<(), Error> {
        self.core.feed.take(self.at, message, Now::read()).map(drop)
    }

    fn report(&mut self, turn: &Turn, now: Now) {
        if turn.ticked || turn.obstacle.is_some() {
            self.report_kafka(turn.obstacle.as_deref(), now);
            self.status.tick_idle(now.instant);
            self.report_tables(TablesRead { rows: self.rows, ..self.read });
        }
    }

    fn report_kafka(&self, obstacle: Option<&str>, now: Now) {
        match obstacle {
            Some(reason) => self.status.down(Component::Kafka, reason, now.instant),
            None => self.status.up(Component::Kafka, now.instant),
        }
    }

    /// Reports the progress: to the status each time, and to the log now and then.
    fn report_tables(&mut self, read: TablesRead) {
        self.read = read;
        let now = Instant::now();
        self.status.read_tables(read, now);
        if now.saturating_duration_since(self.told) >= PROGRESS_INTERVAL {
            let TablesRead { tables, remaining, rows, .. } = read;
            tracing::info!(rows, tables, remaining, percent = read.percent(), "snapshot in progress");
            self.told = now;
        }
    }
}

fn new_core<'s>(parts: &'s RelayParts, metrics: &'s Metrics, at: Lsn) -> Core<'s> {
    let nothing = Acknowledged::nothing(PgTimestamp(0));
    let mut feed = Feed::new(parts, metrics, Lsn::ZERO, nothing, None);
    // The rows of a snapshot are in no transaction.
    feed.transactions = None;
    let now = Now::read();
    // No server gets a snapshot's progress.
    let mut feedback = Feedback::new(parts.postgres.status_interval, Lsn::ZERO, now.instant);
    feedback.received(at);
    Core::new(feed, feedback, None, now)
}

fn full_name(table: &TableFacts) -> String {
    format!("{}.{}", table.schema, table.name)
}
