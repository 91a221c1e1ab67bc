//! A model of a server with transactions, savepoints, prepared transactions and a slot, and the horizon of
//! its rows. Seeded.

use super::Horizon;
use crate::wal::Lsn;

/// Bug of a wrong implementation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    None,
    /// A row counts when the snapshot sees its id, subtransactions included.
    AsTheSnapshotSees,
    /// The end of the WAL is read before the snapshot.
    EndFirst,
    /// The end of what is flushed is taken, not of what is inserted.
    FlushedEnd,
    /// Does not wait for the slot.
    Impatient,
    /// The slot's position counts, and not the one in Kafka.
    SlotAlone,
}

/// A transaction: its own id and those of its savepoints, and how far it is.
#[derive(Debug, Clone)]
struct Running {
    xids: Vec<i64>,
    /// True if it has written to the table, and so has a lock on it.
    wrote: bool,
    /// The end of its commit record, once that is inserted. It is visible a moment later.
    committed: Option<u64>,
}

pub(super) struct World {
    random: fastrand::Rng,
    next: i64,
    inserted: u64,
    flushed: u64,
    running: Vec<Running>,
    /// Visible rows: their xmin, and the end of their commit record.
    rows: Vec<(i64, u64)>,
    /// Position that Kafka has acknowledged; the slot may be moved ahead of it by another client.
    sent: u64,
    slot: u64,
    /// True if the table is locked against writers.
    pub(super) locked: bool,
    /// True if hardly anybody writes to the table any more, and less happens at all.
    pub(super) over: bool,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            next: 100,
            inserted: 1_000,
            flushed: 1_000,
            running: Vec::new(),
            rows: Vec::new(),
            sent: 1_000,
            slot: 1_000,
            locked: false,
            over: false,
        }
    }

    fn xid(&mut self) -> i64 {
        self.next += 1;
        self.next - 1
    }

    pub(super) fn step(&mut self) {
        // Old ones end too, so that the horizon moves.
        let at = if self.random.bool() { 0 } else { self.random.usize(0..self.running.len().max(1)) };
        match self.random.u32(0..12) {
            0..=1 if !self.over || self.random.u32(0..4) == 0 => {
                let xids = vec![self.xid()];
                let odds = if self.over { 1 } else { 75 };
                let wrote = self.random.u32(0..100) < odds && !self.locked;
                self.running.push(Running { xids, wrote, committed: None });
            }
            2 if self
                .running
                .get(at)
                .is_some_and(|it| it.committed.is_none() && (it.wrote || !self.locked)) =>
            {
                let xid = self.xid();
                self.running[at].xids.push(xid);
                self.running[at].wrote = true;
            }
            3..=5 if at < self.running.len() && self.running[at].committed.is_none() => {
                self.inserted += self.random.u64(1..50);
                self.running[at].committed = Some(self.inserted);
            }
            6..=8 if self.running.get(at).is_some_and(|transaction| transaction.committed.is_some()) => {
                let Running { xids, wrote, committed } = self.running.remove(at);
                let end = committed.unwrap();
                self.rows.extend(xids.iter().filter(|_| wrote).map(|xid| (*xid, end)));
            }
            9 => self.flushed = self.random.u64(self.flushed..=self.inserted),
            10 => {
                self.sent = self.random.u64(self.sent..=self.flushed.max(self.sent));
                self.slot = self.slot.max(self.sent);
            }
            11 if self.random.u32(0..4) == 0 => self.slot = self.slot.max(self.flushed),
            _ => {}
        }
    }

    /// Returns a horizon whose rows are all sent, after waiting for it as a cleanup does.
    pub(super) fn horizon(&mut self, bug: Bug) -> Option<(Horizon, i64, Vec<i64>)> {
        let first = if bug == Bug::EndFirst { Some(self.inserted) } else { None };
        if bug == Bug::EndFirst {
            (0..20).for_each(|_| self.step());
        }
        // The snapshot, and the end of the WAL after it.
        let top: Vec<i64> = self.running.iter().map(|transaction| transaction.xids[0]).collect();
        let (xmin, xmax) = (top.iter().copied().min().unwrap_or(self.next), self.next);
        (0..self.random.usize(0..5)).for_each(|_| self.step());
        let end = if bug == Bug::FlushedEnd { self.flushed } else { self.inserted };
        let horizon = Horizon { xid: xmin, lsn: Lsn::new(first.unwrap_or(end)) };
        for _ in 0..400 {
            self.step();
            let kept = (bug != Bug::SlotAlone).then_some(Lsn::new(self.sent));
            if bug == Bug::Impatient || horizon.is_sent(Lsn::new(self.slot), kept) {
                return Some((horizon, xmax, top));
            }
        }
        None
    }

    /// Returns the number of rows that would be deleted some time after a check, and were not sent.
    fn unsent(&mut self, bug: Bug) -> usize {
        let Some((horizon, xmax, top)) = self.horizon(bug) else { return 0 };
        let covered = |xid: i64| match bug {
            Bug::AsTheSnapshotSees => xid < horizon.xid || xid < xmax && !top.contains(&xid),
            _ => self.covers(horizon, xid),
        };
        self.rows.iter().filter(|(xid, end)| covered(*xid) && *end > self.sent).count()
    }

    fn covers(&self, horizon: Horizon, xid: i64) -> bool {
        horizon.covers(u32::try_from(xid).unwrap(), self.next)
    }

    /// Returns whether each visible row is before it.
    pub(super) fn all_covered(&self, horizon: Horizon) -> bool {
        self.rows.iter().all(|(xid, _)| self.covers(horizon, *xid))
    }

    /// Returns whether every writer has ended.
    pub(super) fn is_unwritten(&self) -> bool {
        self.running.iter().all(|transaction| !transaction.wrote)
    }

    /// Returns the number of rows that are not sent, including invisible ones.
    pub(super) fn not_sent(&self) -> usize {
        let unseen = self.running.iter().filter(|transaction| transaction.wrote).count();
        self.rows.iter().filter(|(_, end)| *end > self.sent).count() + unseen
    }
}

fn unsent(bug: Bug) -> usize {
    (0..400)
        .map(|seed| {
            let mut world = World::new(seed);
            (0..200).for_each(|_| world.step());
            world.unsent(bug)
        })
        .sum()
}

#[test]
fn no_unsent_row_is_ever_covered() {
    assert_eq!(unsent(Bug::None), 0);
}

#[test]
fn the_model_finds_each_planted_mistake() {
    for bug in [Bug::AsTheSnapshotSees, Bug::EndFirst, Bug::FlushedEnd, Bug::Impatient, Bug::SlotAlone] {
        assert!(unsent(bug) > 0, "{bug:?}");
    }
}
