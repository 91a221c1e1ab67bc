//! Tells of snapshots: in the log, in a topic, and to an HTTP server.

use std::collections::VecDeque;

use super::clock::Now;
use super::mailbox::{Mailbox, Posting};
use super::options::Options;
use super::route::Route;
use crate::change::ChangeEvents;
use crate::signal::Notification;

/// What waits to be told is at most so much: what is newer is left out.
const WAITING_MAX: usize = 10_000;

/// The notifications of a session, until they are sent.
#[derive(Debug)]
pub(super) struct Notifier<'p> {
    pub(super) changes: &'p ChangeEvents,
    pub(super) topic: Option<&'p str>,
    log: bool,
    posts: Option<&'p Mailbox>,
    waiting: VecDeque<Notice>,
}

/// A notification, and when it was made.
#[derive(Debug, Clone)]
pub(super) struct Notice {
    pub(super) id: String,
    pub(super) at_ms: i64,
    pub(super) notification: Notification,
}

impl<'p> Notifier<'p> {
    /// `None` when nobody is told.
    pub(super) fn new(options: &'p Options, route: &'p Route, posts: Option<&'p Mailbox>) -> Option<Self> {
        let Route::Changes(changes) = route else { return None };
        let told = &options.notifications;
        let new =
            Self { changes, topic: told.topic.as_deref(), log: told.log, posts, waiting: VecDeque::new() };
        told.is_on().then_some(new)
    }

    /// Tells it: in the log at once, in the topic soon.
    pub(super) fn tell(&mut self, notification: Notification, now: Now) {
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

    /// What is to be sent next.
    pub(super) fn next(&mut self) -> Option<Notice> {
        self.waiting.pop_front()
    }

    /// It is not sent yet.
    pub(super) fn put_back(&mut self, notice: Notice) {
        self.waiting.push_front(notice);
    }

    /// Whether all is sent.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }
}
