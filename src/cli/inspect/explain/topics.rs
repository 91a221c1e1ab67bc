//! Topics that may have an event's record.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::error::ExplainError;
use super::rows::Database;
use crate::change::ChangeEvents;
use crate::cli::shell::notice::Notice;
use crate::cli::shell::progress::Progress;
use crate::http::Instance;
use crate::kafka::Admin;
use crate::outbox::EventRouter;
use crate::relay::{RelayParts, Route};

/// More topics than this are not searched unless they are named.
const TOPICS_MAX: usize = 200;

const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the topics that can have the event's record: those that are named, those that its rows lead to, or
/// all that the router can make.
pub(super) async fn candidates(
    parts: &RelayParts,
    database: &Database,
    named: &[String],
    relay: Option<&Instance>,
) -> Result<Vec<String>, ExplainError> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let Some(router) = parts.route.outbox() else { return all(parts, relay).await };
    let routes = database.rows.iter().filter_map(|row| row.route.as_deref());
    let of_rows: BTreeSet<_> = routes.filter_map(|route| router.topic(route).ok()).collect();
    if !of_rows.is_empty() {
        return Ok(of_rows.into_iter().collect());
    }
    all(parts, relay).await
}

/// Returns all topics that the configuration can lead to. Where a transform renames topics, these are the topics that the
/// running relay has sent to.
pub(in crate::cli) async fn all(
    parts: &RelayParts,
    relay: Option<&Instance>,
) -> Result<Vec<String>, ExplainError> {
    if let Some(transform) = renaming(parts) {
        let relay = relay.ok_or_else(|| ExplainError::Renamed(transform.to_owned()))?;
        let overview = relay.overview(PATIENCE).await.map_err(ExplainError::NoAnswer)?;
        let mut topics: Vec<_> = overview.topics.into_iter().map(|topic| topic.topic).collect();
        topics.sort();
        return Ok(topics);
    }
    let admin = Admin::new(&parts.kafka)?;
    let asking = spawn_blocking(move || admin.cluster(PATIENCE));
    let notice = Notice::of_kafka(&Progress::hidden(), &parts.kafka);
    let (_, topics) = asking.await.map_err(|_| ExplainError::Aborted)??;
    drop(notice);
    let mut topics: Vec<_> =
        topics.into_iter().map(|topic| topic.name).filter(|topic| may_be_of(parts, topic)).collect();
    topics.sort();
    match topics.len() {
        0..=TOPICS_MAX => Ok(topics),
        found => Err(ExplainError::TooManyTopics { found, max: TOPICS_MAX }),
    }
}

/// Returns the transform that may lead records to any topic.
pub(in crate::cli) fn renaming(parts: &RelayParts) -> Option<&str> {
    parts.route.changes().and_then(ChangeEvents::renaming_transform)
}

/// Returns whether a topic can be one of this configuration's.
pub(in crate::cli) fn may_be_of(parts: &RelayParts, topic: &str) -> bool {
    match &parts.route {
        Route::Outbox(router) => leads_to(router, topic),
        Route::Changes(changes) => {
            !topic.starts_with("__") && topic.starts_with(&changes.topic_prefix())
                || changes.event_routers().any(|router| leads_to(router, topic))
        }
    }
}

/// Returns true if a router may produce to a topic. Internal topics of Kafka and outboxd are excluded.
fn leads_to(router: &EventRouter, topic: &str) -> bool {
    !topic.starts_with("__") && router.may_lead_to(topic)
}
