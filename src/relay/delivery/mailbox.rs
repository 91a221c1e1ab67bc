//! The queue of notifications for an HTTP server; it outlives a session.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most postings that wait, as in Debezium: newer ones are dropped.
const POSTINGS_MAX: usize = 1_000;

/// Notifications on their way to an HTTP server. It outlives a session.
#[derive(Clone)]
pub(in crate::relay) struct Mailbox {
    waiting: Arc<Mutex<Waiting>>,
    waker: Arc<dyn Fn() + Send + Sync>,
}

#[derive(Debug, Default)]
struct Waiting {
    postings: VecDeque<Posting>,
    /// Number of postings dropped since the last call of `take_left_out`.
    left_out: u64,
}

/// A notification as it is posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) struct Posting {
    pub(in crate::relay) body: String,
    /// Kind of the notification, for the log.
    pub(in crate::relay) kind: &'static str,
    /// True if it is the last one of its snapshot.
    pub(in crate::relay) is_last: bool,
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").finish_non_exhaustive()
    }
}

impl Mailbox {
    /// Creates an empty mailbox. `waker` is called when something is put into it.
    pub(in crate::relay) fn new(waker: impl Fn() + Send + Sync + 'static) -> Self {
        Self { waiting: Arc::default(), waker: Arc::new(waker) }
    }

    /// Adds a posting without waiting: one without room is dropped, and counted.
    pub(in crate::relay) fn put(&self, posting: Posting) {
        let mut waiting = self.lock();
        if waiting.postings.len() < POSTINGS_MAX {
            waiting.postings.push_back(posting);
        } else {
            waiting.left_out = waiting.left_out.saturating_add(1);
        }
        drop(waiting);
        (self.waker)();
    }

    /// Returns the oldest posting, which stays until it is removed.
    pub(in crate::relay) fn first(&self) -> Option<Posting> {
        self.lock().postings.front().cloned()
    }

    pub(in crate::relay) fn remove_first(&self) {
        self.lock().postings.pop_front();
    }

    /// Returns the number of postings dropped since the last call.
    pub(in crate::relay) fn take_left_out(&self) -> u64 {
        std::mem::take(&mut self.lock().left_out)
    }

    /// Removes all postings, and returns their number.
    pub(in crate::relay) fn clear(&self) -> u64 {
        let waiting = std::mem::take(&mut *self.lock());
        u64::try_from(waiting.postings.len()).unwrap_or(u64::MAX).saturating_add(waiting.left_out)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_excluded_and_the_oldest_is_first() {
        let woken = Arc::new(Mutex::new(0));
        let count = Arc::clone(&woken);
        let mailbox = Mailbox::new(move || *count.lock().unwrap() += 1);
        for n in 0..POSTINGS_MAX + 2 {
            mailbox.put(Posting { body: n.to_string(), kind: "STARTED", is_last: false });
        }
        assert_eq!(*woken.lock().unwrap(), POSTINGS_MAX + 2);
        assert_eq!((mailbox.take_left_out(), mailbox.take_left_out()), (2, 0));
        assert_eq!(mailbox.first().unwrap().body, "0");
        mailbox.remove_first();
        assert_eq!(mailbox.first().unwrap().body, "1");
        assert_eq!(mailbox.clear(), 999);
        assert_eq!((mailbox.first(), mailbox.clear()), (None, 0));
    }
}
