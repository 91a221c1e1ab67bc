use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::error::ExplainError;
use super::rows::Database;
use crate::change::ChangeEvents;
use crate::cli::notice::Notice;
use crate::cli::progress::Progress;
use crate::kafka::Admin;
use crate::outbox::EventRouter;
use crate::relay::{RelayParts, Route};

/// More topics than this are not searched unless they are named.
const TOPICS_MAX: usize = 200;

const PATIENCE: Duration = Duration::from_secs(10);

/// A route value that nobody has: what stands around it in a topic's name is the same for all.
const NOBODY: &str = "Q9nobody9Q";

/// Where the event's record can be: the topics that are named, those that its rows lead to, or all that the router can make.
pub(super) async fn candidates(
    parts: &RelayParts,
    database: &Database,
    named: &[String],
) -> Result<Vec<String>, ExplainError> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let Some(router) = parts.route.outbox() else { return all(parts).await };
    let routes = database.rows.iter().filter_map(|row| row.route.as_deref());
    let of_rows: BTreeSet<_> = routes.filter_map(|route| router.topic(route).ok()).collect();
    if !of_rows.is_empty() {
        return Ok(of_rows.into_iter().collect());
    }
    all(parts).await
}

/// All topics that the configuration can lead to.
pub(in crate::cli) async fn all(parts: &RelayParts) -> Result<Vec<String>, ExplainError> {
    if let Some(transform) = parts.route.changes().and_then(ChangeEvents::renaming_transform) {
        return Err(ExplainError::Renamed(transform.to_owned()));
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

/// Whether a topic can be one of this configuration's.
pub(in crate::cli) fn may_be_of(parts: &RelayParts, topic: &str) -> bool {
    match &parts.route {
        Route::Outbox(router) => leads_to(router, topic),
        Route::Changes(changes) => {
            !topic.starts_with("__") && topic.starts_with(&changes.topic_prefix())
                || changes.event_routers().any(|router| leads_to(router, topic))
        }
    }
}

/// Whether some route value leads to this topic. Where the router changes more than one place, all may be meant.
fn leads_to(router: &EventRouter, topic: &str) -> bool {
    // Those of Kafka and of outboxd itself.
    if topic.starts_with("__") {
        return false;
    }
    let Ok(nobody) = router.topic(NOBODY) else { return true };
    match nobody.split_once(NOBODY) {
        Some((before, after)) => topic.starts_with(before) && topic.ends_with(after),
        None => topic == nobody,
    }
}
