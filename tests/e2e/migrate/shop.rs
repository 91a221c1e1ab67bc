use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use uuid::Uuid;

use super::shape::Shape;
use crate::support::outbox::Outbox;
use crate::support::record::Record;
use crate::support::session::Session;
use crate::support::wait::let_pass;

/// An application that writes events all the time: 1 to 4 in a transaction, some rolled back, some held open.
#[derive(Debug)]
pub(crate) struct Shop {
    stop: Arc<AtomicBool>,
    committed: Arc<Mutex<BTreeMap<String, Written>>>,
    writers: Vec<JoinHandle<()>>,
}

/// Event that was committed under an id.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    key: String,
    number: u64,
}

impl Shop {
    /// Opens it with `writers` writers. Each writes to keys of its own, so that the events of a key commit in their
    /// order.
    pub(crate) fn open(db: &Outbox, shape: Shape, writers: usize) -> Self {
        let (stop, committed) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let writers = (0..writers).map(|writer| {
            let (stop, committed) = (Arc::clone(&stop), Arc::clone(&committed));
            let session = Session::new(db.address().clone());
            thread::spawn(move || write(&session, shape, writer, &stop, &committed))
        });
        let writers = writers.collect();
        Self { stop, committed, writers }
    }

    /// Returns the number of committed events.
    pub(crate) fn count(&self) -> usize {
        lock(&self.committed).len()
    }

    /// Closes it: no event is committed after that. How many there are.
    pub(crate) fn close(&mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.writers.drain(..).for_each(|writer| writer.join().unwrap());
        self.count()
    }

    /// Checks that each event came once, and that the sender of an event of a key had seen all that the other sent
    /// before.
    pub(crate) fn check(&self, records: &[Record]) -> Seen {
        let committed = lock(&self.committed);
        let mut seen = Seen::default();
        let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
        let mut latest: BTreeMap<(&str, bool), u64> = BTreeMap::new();
        for record in records {
            let poller = record.headers.iter().any(|(name, _)| name == "poller");
            let id = record.header("id");
            let written = committed.get(id).unwrap_or_else(|| panic!("{id} was never committed"));
            *ids.entry(id).or_default() += 1;
            *(if poller { &mut seen.by_poller } else { &mut seen.by_outboxd }) += 1;
            let before = |by: bool| latest.get(&(written.key.as_str(), by)).copied();
            seen.over_the_seam += usize::from(before(!poller).is_some_and(|number| number > written.number));
            if before(poller).is_some_and(|number| number > written.number) {
                *(if poller { &mut seen.by_the_poller_itself } else { &mut seen.by_outboxd_itself }) += 1;
            }
            let last = latest.entry((written.key.as_str(), poller)).or_default();
            *last = (*last).max(written.number);
        }
        seen.written = committed.len();
        seen.lost = committed.keys().filter(|id| !ids.contains_key(id.as_str())).count();
        seen.twice = ids.values().filter(|count| **count > 1).count();
        seen
    }
}

/// Received events, in numbers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) written: usize,
    pub(crate) by_poller: usize,
    pub(crate) by_outboxd: usize,
    pub(crate) lost: usize,
    pub(crate) twice: usize,
    /// Events that came after a later one of their key that the other had sent.
    pub(crate) over_the_seam: usize,
    pub(crate) by_outboxd_itself: usize,
    /// Those of one poller: that of the seeds sorts by when the transaction began.
    pub(crate) by_the_poller_itself: usize,
}

impl Seen {
    /// Fails unless nothing was lost, sent twice or reordered, and each of the two has sent something.
    #[track_caller]
    pub(crate) fn is_whole(self) {
        println!("{self:?}");
        let faults = [self.lost, self.twice, self.over_the_seam, self.by_outboxd_itself];
        assert_eq!(faults, [0; 4], "lost, twice, reordered at the seam, by outboxd: {self:?}");
        assert!(self.by_poller > 0 && self.by_outboxd > 0, "{self:?}");
    }
}

fn write(
    session: &Session,
    shape: Shape,
    writer: usize,
    stop: &AtomicBool,
    committed: &Mutex<BTreeMap<String, Written>>,
) {
    let (insert, mut numbers) = (shape.insert(), BTreeMap::<String, u64>::new());
    while !stop.load(Ordering::Relaxed) {
        let (before, mut events) = (numbers.clone(), Vec::new());
        session.execute("BEGIN");
        for _ in 0..fastrand::usize(1..=4) {
            let key = format!("w{writer}-{}", fastrand::u8(0..4));
            let number = numbers.entry(key.clone()).or_default();
            *number += 1;
            let (id, number) = (Uuid::now_v7().to_string(), *number);
            session.query(&insert, &[&id, &key, &format!("{{\"n\": {number}}}")]);
            events.push((id, Written { key, number }));
            let_pass(Duration::from_millis(if fastrand::u8(0..100) == 0 {
                200
            } else {
                fastrand::u64(0..4)
            }));
        }
        if fastrand::u8(0..100) < 8 {
            session.execute("ROLLBACK");
            numbers = before;
        } else {
            session.execute("COMMIT");
            lock(committed).extend(events);
        }
    }
}

fn lock<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
