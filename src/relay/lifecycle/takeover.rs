//! Exactly once: fences the previous producer, reads the last committed transaction, and waits until consumers see it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::link::{Link, SqlLoss};
use super::order::{NeedsFence, NeedsVisible};
use super::session::status_interval;
use crate::kafka::{self, StateTopic, Stored, TransactionSettings};
use crate::postgres;
use crate::relay::capture::preflight::Preflight;
use crate::relay::delivery::exactly_once::{Batch, Begins, Known, Names, Patience, Source, State, Timelines};
use crate::relay::error::Error;
use crate::relay::options::TransactionOptions;
use crate::relay::parts::RelayParts;
use crate::relay::progress::last_state::parse;
use crate::relay::time::clock::Now;
use crate::replication::{Feedback, StartReplication};
use crate::signal::StoredCheckpoint;
use crate::wal::{Lsn, SystemId, TimelineId};

/// Time that the brokers may take to grant the transactional id, including the commit of an open transaction.
const INIT_PATIENCE: Duration = Duration::from_secs(30);

/// Time that reading the state may take.
const READ_PATIENCE: Duration = Duration::from_secs(30);

/// Time that the last transaction may take to be visible in its topics.
const SETTLE_PATIENCE: Duration = Duration::from_secs(10);

/// Additional time for the requests about each of them.
const TOPIC_PATIENCE: Duration = Duration::from_millis(250);

/// Interval between two checks of the SQL connection meanwhile.
const SQL_INTERVAL: Duration = Duration::from_millis(500);

/// Time that creating the topic of the state may take.
const MAKE_PATIENCE: Duration = Duration::from_secs(10);

/// Takes the transactions over from the relay that had the slot before: afterwards no other producer can
/// commit, and what was committed is known. This relay must have the slot already. Returns `None` without
/// exactly-once.
pub(in crate::relay) async fn take_over(
    parts: &Arc<RelayParts>,
    link: &mut Link,
    stop: &CancellationToken,
) -> Result<Option<Batch>, Error> {
    let Some(options) = &parts.relay.transactions else { return Ok(None) };
    let topic = StateTopic::new(&parts.kafka, &options.state_topic);
    let slot = parts.postgres.slot.name.to_string();
    let settings = TransactionSettings {
        state: Some((topic.clone(), slot)),
        ..settings(parts, options, &link.origin.system_id)
    };
    let stop = stop.child_token();
    let _guard = stop.clone().drop_guard();
    let needs = NeedsFence::of_stream();
    let stored = {
        let (parts, settings, topic, stop) =
            (Arc::clone(parts), settings.clone(), topic.clone(), stop.clone());
        spawn_blocking(move || {
            parts.producer.begin_transactions(&settings, INIT_PATIENCE, &stop)?;
            let needs = needs.fenced();
            let stored = topic.read(parts.postgres.slot.name.as_str().as_bytes(), READ_PATIENCE, &stop)?;
            Ok((needs, stored))
        })
    };
    let stored = keeping_alive(parts, link, stored).await?;
    let (needs, stored) = stored.unwrap_or_else(|_| Err(aborted()))?;
    if stored == Stored::NoTopic {
        topic.make(MAKE_PATIENCE).await?;
    }
    let source = source(parts, link);
    let state = match stored {
        Stored::Value(bytes) => Some(parse(options, &source.slot, &bytes)?),
        Stored::NoTopic | Stored::Nothing => None,
    };
    let (known, told) = match needs.read(state) {
        Some(needs) => {
            settle(parts, link, needs.state(), &stop).await?;
            link.learn_snapshots(needs.state());
            let wal_end = link.sql.moment(&parts.postgres.slot.name).await?.wal_end;
            known(options, &source, link, needs, wal_end)?
        }
        None => {
            tracing::info!(
                topic = options.state_topic, slot = source.slot, slot_at = %link.confirmed,
                "no Kafka transaction of this slot exists: rows are sent from the slot's position"
            );
            (Known::nothing(link.clock), None)
        }
    };
    let batch = Batch::new(names(&settings, options), known, source, patience(options));
    Ok(Some(batch.behind_snapshots(told)))
}

/// Begins the transactions of a snapshot, whose slot no other client can have. Returns `None` without
/// exactly-once.
pub(in crate::relay) async fn begin(
    parts: &Arc<RelayParts>,
    system_id: &SystemId,
) -> Result<Option<Batch>, Error> {
    let Some(options) = &parts.relay.transactions else { return Ok(None) };
    let settings = settings(parts, options, system_id);
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    let (shared, ours) = (Arc::clone(parts), settings.clone());
    let began = spawn_blocking(move || shared.producer.begin_transactions(&ours, INIT_PATIENCE, &stop)).await;
    began.unwrap_or_else(|_| Err(aborted()))?;
    Ok(Some(Batch::of_snapshot(names(&settings, options), patience(options))))
}

/// Returns the timelines that the server comes from. Must be read before the stream begins.
pub(in crate::relay) async fn history(
    parts: &RelayParts,
    preflight: &mut Preflight,
) -> Result<Timelines, postgres::Error> {
    let TimelineId(timeline) = preflight.timeline;
    if parts.relay.transactions.is_none() || timeline <= 1 {
        return Ok(Timelines { switches: Vec::new() });
    }
    let command = format!("TIMELINE_HISTORY {timeline}");
    let rows = preflight.connection.command("reading the timeline's history", &command).await?;
    let text = rows.first().and_then(|row| row.get(1)).and_then(Option::as_deref).unwrap_or_default();
    Ok(Timelines::parse(text))
}

/// Waits until the last commit is visible in all of its topics: one that is in the topic of the state, and
/// that Kafka has forgotten in another, is no reason to confirm anything.
async fn settle(
    parts: &Arc<RelayParts>,
    link: &mut Link,
    state: &State,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let (mut open_transactions, stop) =
        (parts.producer.open_transactions(state.topics.clone()), stop.clone());
    let topics = u32::try_from(state.topics.len()).unwrap_or(u32::MAX);
    let patience = SETTLE_PATIENCE.saturating_add(TOPIC_PATIENCE.saturating_mul(topics));
    let settled = spawn_blocking(move || open_transactions.wait(patience, &stop));
    let settled = keeping_alive(parts, link, settled).await?;
    Ok(settled.unwrap_or_else(|_| Err(aborted()))?)
}

fn known(
    options: &TransactionOptions,
    source: &Source,
    link: &Link,
    needs: NeedsVisible,
    wal_end: Lsn,
) -> Result<(Known, Option<StoredCheckpoint>), Error> {
    let begins = Begins { at: link.confirmed, wal_end, now: link.clock };
    let (topic, slot) = (options.state_topic.clone(), source.slot.clone());
    let (known, state) = match needs.visible(source, &link.timelines, begins) {
        Ok(visible) => visible,
        Err(source) => return Err(Error::OtherState { topic, slot, source }),
    };
    let place = &state.place;
    tracing::info!(
        topic, slot, commit_lsn = %place.event.commit_lsn, lsn = %place.event.lsn, whole = place.end_lsn.is_some(),
        slot_at = %link.confirmed, "resuming after the last committed Kafka transaction; earlier rows are \
                                    skipped"
    );
    if let Some((from, to)) = known.phantoms() {
        tracing::warn!(
            %from, %to,
            "Kafka has rows of transactions that this server lost at the failover: the old primary had \
             not replicated them"
        );
    }
    Ok((known, state.snapshots))
}

fn aborted() -> kafka::Error {
    kafka::Error::Fatal("the question was aborted".to_owned())
}

/// Waits for a result from Kafka, while PostgreSQL gets status updates.
///
/// # Errors
/// When the connection breaks, or the server is about to stop.
pub(in crate::relay) async fn keeping_alive<T>(
    parts: &RelayParts,
    link: &mut Link,
    mut answer: impl Future<Output = T> + Unpin,
) -> Result<T, postgres::Error> {
    let interval = status_interval(parts.postgres.status_interval, link.wal_sender_timeout_ms);
    let mut feedback = Feedback::new(interval, link.confirmed, Instant::now());
    let mut sql_loss = SqlLoss::default();
    loop {
        let until = feedback.due().min(Instant::now() + SQL_INTERVAL);
        tokio::select! {
            biased;
            answer = &mut answer => return Ok(answer),
            () = sleep_until(until.into()) => {}
        }
        sql_loss.check(&link.sql, Instant::now())?;
        if let Some(update) = feedback.poll(Instant::now(), Now::read().postgres()) {
            link.stream.update(&update).await?;
        }
    }
}

fn settings(parts: &RelayParts, options: &TransactionOptions, system_id: &SystemId) -> TransactionSettings {
    let id = options.transactional_id(&system_id.0, parts.postgres.slot.name.as_str());
    TransactionSettings { id, timeout: options.timeout, state: None }
}

fn patience(options: &TransactionOptions) -> Patience {
    Patience::new(options.interval, options.timeout)
}

fn names(settings: &TransactionSettings, options: &TransactionOptions) -> Names {
    Names { id: settings.id.clone(), state_topic: options.state_topic.clone() }
}

fn source(parts: &RelayParts, link: &Link) -> Source {
    let postgres = &parts.postgres;
    let command = StartReplication {
        slot: postgres.slot.name.as_str(),
        publication: &postgres.publication.name,
        messages: parts.messages.is_some(),
        more: &postgres.slot.stream_params,
    };
    Source {
        system_id: link.origin.system_id.clone(),
        timeline: link.origin.timeline,
        database: postgres.server.database.clone(),
        database_oid: Some(link.database),
        slot: postgres.slot.name.to_string(),
        stream: command.text(),
    }
}
