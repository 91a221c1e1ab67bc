use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::Error;
use super::exactly_once::{Batch, Urgency};
use super::feed::{Feed, Table, Wish, unix_us};
use super::needs::{Need, meet};
use super::preflight::relation_of;
use super::session::TICK;
use super::supervisor::{CAUSE_TIMEOUT, RelayParts};
use crate::connect::column::ColumnDescription;
use crate::kafka::Reports;
use crate::pgoutput::{Begin, Commit, Message};
use crate::postgres::{SnapshotReader, SnapshotRow, Sql, TableFacts, TlsSetup};
use crate::telemetry::{Component, Metrics, Status};
use crate::wal::{Lsn, Oid, PgTimestamp, Xid};

/// How often a long snapshot says how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Sends the rows that are in the captured tables, as one transaction that committed at `at`.
pub(super) struct Snapshot<'s> {
    parts: &'s RelayParts,
    status: &'s Status,
    feed: Feed<'s>,
    at: Lsn,
    rows: u64,
    told: Instant,
}

impl<'s> Snapshot<'s> {
    pub(super) fn new(
        parts: &'s RelayParts,
        status: &'s Status,
        metrics: &'s Metrics,
        at: Lsn,
        batch: Option<Batch>,
    ) -> Self {
        let mut feed = Feed::new(parts, metrics, Lsn::ZERO, Lsn::ZERO, None);
        feed.flight.in_transactions(batch);
        feed.behind = true;
        if let Some(dead_letters) = &parts.dead_letters {
            dead_letters.begin_snapshot();
        }
        Self { parts, status, feed, at, rows: 0, told: Instant::now() }
    }

    /// Reads every table and returns how many rows were sent, once the last of them is acknowledged. After a failure it
    /// waits until what is on its way has come back: the next attempt must not take these reports for its own.
    pub(super) async fn send(
        mut self,
        tables: &[TableFacts],
        sql: &Sql,
        tls: &TlsSetup,
        application: &str,
        snapshot: Option<&str>,
    ) -> Result<u64, Error> {
        let outcome = self.send_rows(tables, sql, tls, application, snapshot).await;
        let refused = matches!(outcome, Err(Error::Kafka(_))) && !self.feed.flight.is_doubtful();
        let urgency = if outcome.is_ok() { Urgency::Now } else { Urgency::Over };
        if refused && timeout(CAUSE_TIMEOUT, self.returned(urgency)).await.is_err() {
            self.parts.producer.purge();
        }
        self.returned(urgency).await?;
        match self.feed.flight.take_refusal() {
            Some(refusal) => Err(refusal),
            None => outcome.and_then(|()| self.feed.flight.fault().map_or(Ok(self.rows), Err)),
        }
    }

    async fn send_rows(
        &mut self,
        tables: &[TableFacts],
        sql: &Sql,
        tls: &TlsSetup,
        application: &str,
        snapshot: Option<&str>,
    ) -> Result<(), Error> {
        let mut reader = SnapshotReader::open(&self.parts.postgres, tls, application, snapshot).await?;
        let commit_time = PgTimestamp::from_unix_us(unix_us());
        self.take(Message::Begin(Begin { final_lsn: self.at, commit_time, xid: Xid(0) }))?;
        for table in tables {
            let columns = sql.describe(table.oid).await?;
            reader.select(&self.parts.postgres.snapshot.statement(table, &columns)).await?;
            self.read(&mut reader, table, &columns).await?;
        }
        self.take(Message::Commit(Commit { commit_lsn: self.at, end_lsn: self.at, commit_time })).map(drop)
    }

    async fn read(
        &mut self,
        reader: &mut SnapshotReader,
        table: &TableFacts,
        columns: &[ColumnDescription],
    ) -> Result<(), Error> {
        loop {
            while !self.feed.has_room() {
                self.acknowledged().await?;
            }
            match reader.next().await? {
                SnapshotRow::Columns(names) => {
                    let shown: Vec<_> = names
                        .iter()
                        .filter_map(|name| columns.iter().find(|column| column.name == *name))
                        .cloned()
                        .collect();
                    let bound = self.parts.router.bind(&relation_of(table, &shown), &shown)?;
                    self.feed.describe(table.oid, Table::Outbox(Box::new(bound)));
                }
                SnapshotRow::Row(new) => {
                    self.rows = self.rows.saturating_add(1);
                    while let Wish::Await(need) = self.feed.insert(self.at, table.oid, &new)? {
                        self.meet(need).await?;
                    }
                    self.feed.flight.collect()?;
                    self.tell(table.oid);
                }
                SnapshotRow::End => return Ok(()),
            }
        }
    }

    /// Asks for what a row needs. The row is taken again in any case.
    async fn meet(&mut self, need: Need) -> Result<(), Error> {
        let mut answer = meet(self.parts, self.status, need);
        loop {
            self.feed.flight.step(Instant::now(), Urgency::More)?;
            tokio::select! {
                biased;
                // Once it is there, nothing else matters.
                answer = answer.as_mut() => match answer {
                    Ok(met) => {
                        self.feed.learn(met);
                        return Ok(());
                    }
                    Err(error) => return self.feed.refuse(error),
                },
                () = self.arrival() => {
                    let reports = self.feed.flight.collect()?;
                    self.tell_kafka(&reports);
                }
            }
        }
    }

    /// Waits until nothing is on its way.
    async fn returned(&mut self, urgency: Urgency) -> Result<(), Error> {
        loop {
            let reports = self.feed.flight.absorb()?;
            self.tell_kafka(&reports);
            self.feed.flight.step(Instant::now(), urgency)?;
            if self.feed.flight.is_settled() {
                return Ok(());
            }
            self.arrival().await;
        }
    }

    fn take(&mut self, message: Message<'_>) -> Result<Wish, Error> {
        self.feed.take(self.at, message)
    }

    /// Waits for delivery reports.
    async fn acknowledged(&mut self) -> Result<(), Error> {
        self.feed.flight.step(Instant::now(), Urgency::More)?;
        self.arrival().await;
        let reports = self.feed.flight.collect()?;
        self.tell_kafka(&reports);
        Ok(())
    }

    /// Of delivery reports, or the time to tell the status.
    async fn arrival(&self) {
        tokio::select! {
            () = self.parts.producer.deliveries().arrived() => {}
            () = sleep(TICK) => {}
        }
    }

    fn tell_kafka(&self, reports: &Reports) {
        let now = Instant::now();
        match reports.obstacle() {
            Some(reason) => self.status.down(Component::Kafka, reason, now),
            None => self.status.up(Component::Kafka, now),
        }
        self.status.tick_idle(now);
    }

    fn tell(&mut self, table: Oid) {
        let now = Instant::now();
        if now.saturating_duration_since(self.told) >= PROGRESS_INTERVAL {
            tracing::info!(rows = self.rows, %table, "snapshot goes on");
            self.status.tick_idle(now);
            self.told = now;
        }
    }
}
