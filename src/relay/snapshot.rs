use std::mem;
use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use super::acknowledged::Acknowledged;
use super::asking::{PendingAnswer, answered, ask};
use super::clock::Now;
use super::core::{
    CAUSE_TIMEOUT, Core, Drain, Draining, Ending, Event, Limits, Source, Taken, Then, Turn, Wanted,
};
use super::error::Error;
use super::exactly_once::{Batch, Urgency};
use super::feed::{Feed, Outcome};
use super::needs::Waiting;
use super::notifier::Notifier;
use super::parts::RelayParts;
use super::resolution::relation_of;
use super::resolver::Resolver;
use super::table::Table;
use crate::change::{Edge, Snapshot as Marker};
use crate::connect::column::ColumnDescription;
use crate::error::{Class, Diagnose};
use crate::kafka::Transport;
use crate::pgoutput::{Begin, Commit, Message, Tuple};
use crate::postgres::{OwnedRow, SnapshotReader, SnapshotRow, TableFacts, TlsSetup};
use crate::replication::Feedback;
use crate::signal::{Notification, Told};
use crate::telemetry::{Component, Status};
use crate::wal::{Lsn, Oid, PgTimestamp, Xid};
use crate::wire::READ_BYTES;

/// How often a long snapshot says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// How often a snapshot that waits looks around.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Sends the rows that are in the captured tables, as one transaction that committed at `at`.
pub(super) struct Snapshot<'s> {
    parts: &'s RelayParts,
    status: &'s Status,
    resolver: Resolver<'s>,
    core: Core<'s>,
    at: Lsn,
    rows: u64,
    /// The table that is read is the last one.
    is_last_table: bool,
    told: Instant,
    /// The question that the core waits for.
    answer: Option<PendingAnswer<'s>>,
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
        let lsn = self.at;
        match feed.insert(lsn, self.table, row, now)? {
            // It is given again.
            Outcome::TakeAgain(need) => Ok(Some(Taken::Held { lsn, need, waiting: Waiting::Row })),
            outcome => {
                self.row = None;
                Ok(Some(Taken::Message { lsn, outcome }))
            }
        }
    }
}

impl<'s> Snapshot<'s> {
    pub(super) fn new(resolver: Resolver<'s>, at: Lsn, batch: Option<Batch>) -> Self {
        let Resolver { parts, status, metrics, .. } = resolver;
        let nothing = Acknowledged::nothing(PgTimestamp(0));
        let mut feed = Feed::new(parts, metrics, Lsn::ZERO, nothing, None);
        feed.flight.in_transactions(batch);
        // The rows of a snapshot are in no transaction.
        feed.transactions = None;
        if let Some(dead_letters) = &parts.dead_letters {
            dead_letters.begin_snapshot();
        }
        let now = Now::read();
        // No server hears of a snapshot's progress.
        let mut feedback = Feedback::new(parts.postgres.status_interval, Lsn::ZERO, now.instant);
        feedback.received(at);
        let core = Core::new(feed, feedback, None, now);
        Self {
            parts,
            status,
            resolver,
            core,
            at,
            rows: 0,
            is_last_table: false,
            told: now.instant,
            answer: None,
        }
    }

    /// Reads every table and returns how many rows were sent, once the last of them is acknowledged. After a failure it
    /// waits until what is on its way has come back: the next attempt must not take these reports for its own.
    pub(super) async fn send(
        mut self,
        tables: &[TableFacts],
        tls: &TlsSetup,
        application: &str,
        snapshot: Option<&str>,
    ) -> Result<u64, Error> {
        let outcome = self.send_rows(tables, tls, application, snapshot).await;
        let cause = self.returned(outcome.as_ref().err()).await?;
        cause.map_or(outcome, Err)?;
        Ok(self.rows)
    }

    async fn send_rows(
        &mut self,
        tables: &[TableFacts],
        tls: &TlsSetup,
        application: &str,
        snapshot: Option<&str>,
    ) -> Result<(), Error> {
        let mut reader = SnapshotReader::open(&self.parts.postgres, tls, application, snapshot).await?;
        let commit_time = Now::read().postgres();
        // Records of an outbox do not tell it.
        let xid = if self.marks() { reader.transaction().await? } else { Xid(0) };
        self.take(Message::Begin(Begin { final_lsn: self.at, commit_time, xid }))?;
        let tables: Vec<_> = tables.iter().filter(|table| !self.parts.tables.is_signals(table)).collect();
        let names: Vec<String> = tables.iter().map(|table| full_name(table)).collect();
        let names = names.join(",");
        self.notify(Told::Started, Vec::new());
        self.notify(Told::CollectionsResolved, vec![("data_collections", names.clone())]);
        for (index, table) in tables.iter().enumerate() {
            self.is_last_table = index + 1 == tables.len();
            let name = full_name(table);
            let data =
                vec![("current_collection_in_progress", name.clone()), ("data_collections", names.clone())];
            self.notify(Told::InProgress, data);
            let before = self.rows;
            let columns = self.resolver.sql.describe(table.oid).await?;
            reader.select(&self.parts.postgres.snapshot.statement(table, &columns)).await?;
            self.read(&mut reader, table, &columns).await?;
            let scanned = self.rows.saturating_sub(before).to_string();
            let mut data = vec![("data_collections", names.clone()), ("scanned_collection", name)];
            data.extend([("status", "SUCCEEDED".to_owned()), ("total_rows_scanned", scanned)]);
            self.notify(Told::TableScanCompleted, data);
        }
        self.notify(Told::Completed, Vec::new());
        self.send_notifications().await?;
        self.take(Message::Commit(Commit { commit_lsn: self.at, end_lsn: self.at, commit_time }))
    }

    async fn read(
        &mut self,
        reader: &mut SnapshotReader,
        table: &TableFacts,
        columns: &[ColumnDescription],
    ) -> Result<(), Error> {
        // A row waits until it is known whether it is the last one.
        let (mut waiting, mut first) = (None, true);
        loop {
            match reader.next().await? {
                SnapshotRow::Columns(names) => {
                    let shown: Vec<_> = names
                        .iter()
                        .filter_map(|name| columns.iter().find(|column| column.name == *name))
                        .cloned()
                        .collect();
                    let bound = self.parts.route.bind(&relation_of(table, &shown), &shown)?;
                    self.core.feed.describe(table.oid, Table::Captured(bound));
                }
                SnapshotRow::Row(row) if self.marks() => {
                    if let Some(before) = waiting.replace(OwnedRow::from(&row)) {
                        self.send_marked(table.oid, &before, Edge { first, last: false }).await?;
                        first = false;
                    }
                }
                SnapshotRow::Row(row) => self.send_counted(table.oid, &row).await?,
                SnapshotRow::End => {
                    if let Some(last) = waiting {
                        self.send_marked(table.oid, &last, Edge { first, last: true }).await?;
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Whether records tell where a row stands in the snapshot.
    fn marks(&self) -> bool {
        self.parts.route.outbox().is_none()
    }

    async fn send_marked(&mut self, table: Oid, row: &OwnedRow, edge: Edge) -> Result<(), Error> {
        let of_table = Edge { first: self.rows == 0, last: self.is_last_table };
        self.core.feed.snapshot = Marker::of(edge, of_table);
        self.send_counted(table, &row.tuple()).await
    }

    async fn send_counted(&mut self, table: Oid, row: &Tuple<'_>) -> Result<(), Error> {
        self.rows = self.rows.saturating_add(1);
        self.send_row(table, row).await?;
        self.tell_progress(table);
        Ok(())
    }

    /// Hands a row over, once there is room for it and what it needs is there.
    async fn send_row(&mut self, table: Oid, row: &Tuple<'_>) -> Result<(), Error> {
        let mut next = NextRow { at: self.at, table, row: Some(row) };
        // There is always more.
        let mut event = Event::Read(READ_BYTES);
        loop {
            let now = Now::read();
            let turn = self.core.turn(now, mem::take(&mut event), Wanted::Stream, &mut next)?;
            self.tell(&turn, now);
            if let Some(need) = turn.need {
                self.answer = Some(ask(&self.resolver, need));
            }
            if next.row.is_none() && !self.core.is_waiting() {
                return Ok(());
            }
            event = self.wait(turn.then).await;
        }
    }

    fn notify(&mut self, told: Told, data: Vec<(&'static str, String)>) {
        self.core.feed.notify(Notification::initial(told, data), Now::read());
    }

    /// Hands over all that is to be told.
    async fn send_notifications(&mut self) -> Result<(), Error> {
        let mut nothing = NextRow { at: self.at, table: Oid(0), row: None };
        let mut event = Event::None;
        loop {
            let now = Now::read();
            let turn = self.core.turn(now, mem::take(&mut event), Wanted::Stream, &mut nothing)?;
            if let Some(need) = turn.need {
                self.answer = Some(ask(&self.resolver, need));
            }
            let is_told = self.core.feed.notifier.as_ref().is_none_or(Notifier::is_done);
            if is_told && !self.core.is_waiting() {
                return Ok(());
            }
            event = self.wait(turn.then).await;
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
            self.tell_kafka(obstacle.as_deref(), now);
            self.status.tick_idle(now.instant);
            match then {
                Draining::Wait => {}
                Draining::Purge => self.parts.producer.purge(),
                Draining::Done | Draining::Late => return Ok(ending.cause(&mut self.core, now)),
            }
            tokio::select! {
                () = self.parts.producer.deliveries().arrived() => {}
                () = sleep_until((now.instant + LOOK_INTERVAL).into()) => {}
            }
        }
    }

    fn take(&mut self, message: Message<'_>) -> Result<(), Error> {
        self.core.feed.take(self.at, message, Now::read()).map(drop)
    }

    fn tell(&self, turn: &Turn, now: Now) {
        if turn.ticked || turn.obstacle.is_some() {
            self.tell_kafka(turn.obstacle.as_deref(), now);
            self.status.tick_idle(now.instant);
        }
    }

    fn tell_kafka(&self, obstacle: Option<&str>, now: Now) {
        match obstacle {
            Some(reason) => self.status.down(Component::Kafka, reason, now.instant),
            None => self.status.up(Component::Kafka, now.instant),
        }
    }

    fn tell_progress(&mut self, table: Oid) {
        let now = Instant::now();
        if now.saturating_duration_since(self.told) >= PROGRESS_INTERVAL {
            tracing::info!(rows = self.rows, %table, "snapshot goes on");
            self.told = now;
        }
    }
}

fn full_name(table: &TableFacts) -> String {
    format!("{}.{}", table.schema, table.name)
}
