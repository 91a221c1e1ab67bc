use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What waits to be posted is at most so much, as in Debezium: what is newer is left out.
const POSTINGS_MAX: usize = 1_000;

/// Notifications on their way to an HTTP server. It outlives a session.
#[derive(Clone)]
pub(super) struct Mailbox {
    waiting: Arc<Mutex<Waiting>>,
    waker: Arc<dyn Fn() + Send + Sync>,
}

#[derive(Debug, Default)]
struct Waiting {
    postings: VecDeque<Posting>,
    /// What had no room, since it was asked for.
    left_out: u64,
}

/// A notification as it is posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Posting {
    pub(super) body: String,
    /// What it tells, for the log.
    pub(super) kind: &'static str,
    /// Nothing more is told of its snapshot.
    pub(super) is_last: bool,
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").finish_non_exhaustive()
    }
}

impl Mailbox {
    /// An empty one. `waker` is called when something is put into it.
    pub(super) fn new(waker: impl Fn() + Send + Sync + 'static) -> Self {
        Self { waiting: Arc::default(), waker: Arc::new(waker) }
    }

    /// Never waits: what has no room is left out, and counted.
    pub(super) fn put(&self, posting: Posting) {
        let mut waiting = self.lock();
        if waiting.postings.len() < POSTINGS_MAX {
            waiting.postings.push_back(posting);
        } else {
            waiting.left_out = waiting.left_out.saturating_add(1);
        }
        drop(waiting);
        (self.waker)();
    }

    /// The oldest. It stays there until it is removed.
    pub(super) fn first(&self) -> Option<Posting> {
        self.lock().postings.front().cloned()
    }

    pub(super) fn remove_first(&self) {
        self.lock().postings.pop_front();
    }

    /// How many were left out since this was asked last.
    pub(super) fn take_left_out(&self) -> u64 {
        std::mem::take(&mut self.lock().left_out)
    }

    /// Removes all, and says how many they were.
    pub(super) fn clear(&self) -> u64 {
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
    fn what_has_no_room_is_left_out_and_the_oldest_is_first() {
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
