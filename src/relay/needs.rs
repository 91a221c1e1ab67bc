use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;
use tokio::time::sleep;

use super::backoff::Backoff;
use super::repeats::{self, Question, Tail};
use super::supervisor::RelayParts;
use super::topics::{decided, settled};
use crate::connect::converter::avro::{Registration, SchemaId};
use crate::error::{Class, Diagnose as _, chain};
use crate::registry::Error;
use crate::telemetry::{Component, Status};
use crate::wal::Lsn;

/// What a record needs before it can be handed over.
#[derive(Debug)]
pub(super) enum Need {
    /// The id of a schema.
    Schema(Box<Registration>),
    /// This topic, which is written to for the first time, or the first time in a while.
    Topic(String),
    /// What is at the end of a topic.
    Tail(Box<Question>),
    /// That everything in flight comes back; this tells of it.
    Lull(Arc<Notify>),
}

/// A need that is met.
#[derive(Debug)]
pub(super) enum Met {
    /// The schema has this id.
    Schema(Box<(Registration, SchemaId)>),
    /// The topic is there with so many partitions, or will not come.
    Topic { name: String, partitions: usize },
    /// What was read at the end of the topic.
    Tail(Tail),
    /// Everything in flight has come back.
    Lull,
}

/// A record that waits for what it needs. Nothing behind it is taken meanwhile; at most one is held so.
pub(super) struct Awaiting<'s> {
    /// What it is made of.
    pub(super) waiting: Waiting,
    /// The question. Dropping it withdraws the question.
    pub(super) answer: Answer<'s>,
    /// Nothing but what is in flight is waited for, so that a stop can wait for it too.
    pub(super) brief: bool,
}

impl<'s> Awaiting<'s> {
    pub(super) fn new(waiting: Waiting, need: Need, parts: &'s RelayParts, status: &'s Status) -> Self {
        let brief = matches!(need, Need::Lull(_));
        Self { waiting, answer: meet(parts, status, need), brief }
    }
}

/// What waits.
pub(super) enum Waiting {
    /// A pgoutput message, to be taken again, and where it stands in the WAL.
    Message { data: Vec<u8>, lsn: Lsn },
    /// A heartbeat, which beats again when it is due.
    Heartbeat,
}

pub(super) type Answer<'s> = Pin<Box<dyn Future<Output = Result<Met, Error>> + Send + 's>>;

/// Asks until there is an answer for good. A registry that is down is waited for, and so are brokers: the rows are safe in
/// PostgreSQL.
pub(super) fn meet<'s>(parts: &'s RelayParts, status: &'s Status, need: Need) -> Answer<'s> {
    match need {
        Need::Schema(registration) => Box::pin(register(parts, status, *registration)),
        Need::Topic(topic) => {
            let probe = parts.producer.topic_probe(&topic);
            let leftovers = parts.producer.leftovers(vec![topic.clone()]);
            Box::pin(async move {
                let partitions = settled(&probe).await;
                decided(leftovers).await;
                Ok(Met::Topic { name: topic, partitions })
            })
        }
        Need::Tail(question) => {
            let options = parts.kafka.clone();
            Box::pin(async move { Ok(Met::Tail(repeats::read(options, *question).await)) })
        }
        Need::Lull(lull) => Box::pin(async move {
            lull.notified().await;
            Ok(Met::Lull)
        }),
    }
}

/// Waits for the answer, for ever when nothing was asked. Cancel-safe.
pub(super) async fn met(awaiting: &mut Option<Awaiting<'_>>) -> Result<Met, Error> {
    match awaiting {
        Some(awaiting) => awaiting.answer.as_mut().await,
        None => pending().await,
    }
}

async fn register(parts: &RelayParts, status: &Status, registration: Registration) -> Result<Met, Error> {
    let mut backoff = Backoff::default();
    loop {
        match parts.registries.id(&registration).await {
            Ok(id) => {
                status.up(Component::Registry, Instant::now());
                tracing::info!(subject = registration.subject, id = id.0, "schema is registered");
                return Ok(Met::Schema(Box::new((registration, id))));
            }
            Err(error) if error.class() == Class::Transient => {
                status.down(Component::Registry, chain(&error), Instant::now());
                sleep(backoff.next(fastrand::f64())).await;
            }
            Err(error) => return Err(error),
        }
    }
}
