//! Notifications of snapshots: in the log, in a topic, and to an HTTP server.

use std::collections::VecDeque;

use crate::change::ChangeEvents;
use crate::relay::capture::route::Route;
use crate::relay::delivery::mailbox::{Mailbox, Posting};
use crate::relay::options::Options;
use crate::relay::time::clock::Now;
use crate::signal::Notification;

/// Most notifications that wait: newer ones are dropped.
const WAITING_MAX: usize = 10_000;

/// The notifications of a session, until they are sent.
#[derive(Debug)]
pub(in crate::relay) struct Notifier<'p> {
    pub(in crate::relay) changes: &'p ChangeEvents,
    pub(in crate::relay) topic: Option<&'p str>,
    log: bool,
    posts: Option<&'p Mailbox>,
    waiting: VecDeque<Notice>,
}

/// A notification, and when it was made.
#[derive(Debug, Clone)]
pub(in crate::relay) struct Notice {
    pub(in crate::relay) id: String,
    pub(in crate::relay) at_ms: i64,
    pub(in crate::relay) notification: Notification,
}

impl<'p> Notifier<'p> {
    /// Creates it; `None` when notifications are disabled.
    pub(in crate::relay) fn new(
        options: &'p Options,
        route: &'p Route,
        posts: Option<&'p Mailbox>,
    ) -> Option<Self> {
        let Route::Changes(changes) = route else { return None };
        let told = &options.notifications;
        let new =
            Self { changes, topic: told.topic.as_deref(), log: told.log, posts, waiting: VecDeque::new() };
        told.is_on().then_some(new)
    }

    /// Sends it: to the log at once, to the topic soon.
    pub(in crate::relay) fn report(&mut self, notification: Notification, now: Now) {
        let id = notification.correlation.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        if self.log {
            let data: Vec<_> =
                notification.data.iter().map(|(name, text)| format!("{name}={text}")).collect();
            tracing::info!(
                id,
                about = notification.aggregate.name(),
                data = data.join(" "),
                "notification: {}",
                notification.status.name()
            );
        }
        if let Some(posts) = self.posts {
            let body = notification.json(&id, self.changes.connector_name(), now.unix_ms());
            let (kind, is_last) = (notification.status.name(), notification.status.is_last());
            posts.put(Posting { body, kind, is_last });
        }
        if self.topic.is_some() && self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(Notice { id, at_ms: now.unix_ms(), notification });
        }
    }

    /// Removes and returns the next one to send.
    pub(in crate::relay) fn next(&mut self) -> Option<Notice> {
        self.waiting.pop_front()
    }

    /// Puts one back that is not sent yet.
    pub(in crate::relay) fn put_back(&mut self, notice: Notice) {
        self.waiting.push_front(notice);
    }

    /// Returns whether all is sent.
    pub(in crate::relay) fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }
}
