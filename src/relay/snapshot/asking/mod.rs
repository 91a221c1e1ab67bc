//! Queries for what the core needs, beside the stream.

mod seen;
mod topic;

use std::future::pending;
use std::pin::Pin;
use std::time::Instant;

use tokio::time::sleep;

use crate::connect::converter::registered::Registration;
use crate::error::{Class, Diagnose as _};
use crate::kafka;
use crate::pgoutput::Relation;
use crate::relay::capture::resolver::Resolver;
use crate::relay::delivery::needs::{Answer, Need};
use crate::relay::delivery::repeats;
use crate::relay::error::Error;
use crate::relay::parts::RelayParts;
use crate::relay::time::backoff::Backoff;
use crate::telemetry::{Component, Status};
use crate::wal::Xid;
use seen::seen;
use topic::{collision, decided, made, refused, settled};

/// A question on its way. Dropping it withdraws the question.
pub(in crate::relay) type PendingAnswer<'s> =
    Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send + 's>>;

/// Repeats the request until there is a final answer. Waits for a registry or brokers that are down: the rows
/// are safe in PostgreSQL.
pub(in crate::relay) fn ask<'s>(resolver: &Resolver<'s>, need: Need) -> PendingAnswer<'s> {
    let (parts, status) = (resolver.parts, resolver.status);
    match need {
        Need::Table { relation, within } => Box::pin(describe(resolver.clone(), *relation, within)),
        Need::Schema(registration) => Box::pin(register(parts, status, *registration)),
        Need::Topic(topic) => {
            let probe = parts.producer.topic_probe(&topic);
            let open_transactions = parts.producer.open_transactions(vec![topic.clone()]);
            Box::pin(async move {
                let partitions = match made(parts, status, &topic).await {
                    Ok(is_new) => settled(&probe, is_new).await,
                    Err(error) => refused(parts, &topic, error).map(|()| 0)?,
                };
                if partitions == 0
                    && let Some(reason) = collision(&probe).await
                {
                    refused(parts, &topic, kafka::Error::refused_topic(&topic, reason).into())?;
                }
                decided(open_transactions).await;
                Ok(Answer::Topic { name: topic, partitions })
            })
        }
        Need::Tail(question) => {
            let options = parts.kafka.clone();
            Box::pin(async move { Ok(Answer::Tail(repeats::read(options, *question).await)) })
        }
        Need::Values { lookup, within } => {
            let resolver = resolver.clone();
            Box::pin(async move {
                seen(&resolver, within).await?;
                Ok(Answer::Values(resolver.reselect(*lookup).await?))
            })
        }
        // The core sees it by itself.
        Need::QueueEmpty | Need::Rows => Box::pin(pending()),
    }
}

/// Waits for the answer, for ever when nothing was asked. Cancel-safe.
pub(in crate::relay) async fn answered(answer: &mut Option<PendingAnswer<'_>>) -> Result<Answer, Error> {
    match answer {
        Some(answer) => answer.as_mut().await,
        None => pending().await,
    }
}

async fn describe(resolver: Resolver<'_>, relation: Relation, within: Option<Xid>) -> Result<Answer, Error> {
    let oid = relation.oid;
    seen(&resolver, within).await?;
    let table = resolver.resolve(relation).await?;
    Ok(Answer::Table { relation: oid, table })
}

async fn register(parts: &RelayParts, status: &Status, registration: Registration) -> Result<Answer, Error> {
    let mut backoff = Backoff::default();
    loop {
        match parts.registries.id(&registration).await {
            Ok(id) => {
                status.up(Component::Registry, Instant::now());
                tracing::info!(subject = registration.subject, id = id.0, "registered a schema");
                return Ok(Answer::Schema(Box::new((registration, id))));
            }
            Err(error) if error.class() == Class::Transient => {
                status.down_by(Component::Registry, &error, Instant::now());
                sleep(backoff.next(fastrand::f64())).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
