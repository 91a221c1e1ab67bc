//! A server with transactions, savepoints, prepared transactions and a slot, and what the horizon says of its rows. Seeded.

use super::Horizon;
use crate::wal::Lsn;

/// What a wrong implementation would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// A row counts when the snapshot sees its id, subtransactions included.
    AsTheSnapshotSees,
    /// The end of the WAL is read before the snapshot.
    EndFirst,
    /// The end of what is flushed is taken, not of what is inserted.
    FlushedEnd,
    /// Nobody waits for the slot.
    Impatient,
    /// The slot's position counts, and not the one in Kafka.
    SlotAlone,
}

/// A transaction: its own id and those of its savepoints, and how far it is.
#[derive(Debug, Clone)]
struct Running {
    xids: Vec<i64>,
    /// The end of its commit record, once that is inserted. It is visible a moment later.
    committed: Option<u64>,
}

struct World {
    random: fastrand::Rng,
    next: i64,
    inserted: u64,
    flushed: u64,
    running: Vec<Running>,
    /// Visible rows: their xmin, and the end of their commit record.
    rows: Vec<(i64, u64)>,
    /// What Kafka has acknowledged; the slot may be moved ahead of it by somebody.
    sent: u64,
    slot: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            next: 100,
            inserted: 1_000,
            flushed: 1_000,
            running: Vec::new(),
            rows: Vec::new(),
            sent: 1_000,
            slot: 1_000,
        }
    }

    fn xid(&mut self) -> i64 {
        self.next += 1;
        self.next - 1
    }

    fn step(&mut self) {
        // Old ones end too, so that the horizon moves.
        let at = if self.random.bool() { 0 } else { self.random.usize(0..self.running.len().max(1)) };
        match self.random.u32(0..12) {
            0..=1 => {
                let xids = vec![self.xid()];
                self.running.push(Running { xids, committed: None });
            }
            2 if at < self.running.len() => {
                let xid = self.xid();
                self.running[at].xids.push(xid);
            }
            3..=5 if at < self.running.len() && self.running[at].committed.is_none() => {
                self.inserted += self.random.u64(1..50);
                self.running[at].committed = Some(self.inserted);
            }
            6..=8 if self.running.get(at).is_some_and(|transaction| transaction.committed.is_some()) => {
                let Running { xids, committed } = self.running.remove(at);
                let end = committed.unwrap();
                self.rows.extend(xids.iter().map(|xid| (*xid, end)));
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

    /// The rows that would be deleted some time after a look, and were not sent.
    fn unsent(&mut self, bug: Bug) -> usize {
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
                break;
            }
        }
        let kept = (bug != Bug::SlotAlone).then_some(Lsn::new(self.sent));
        if bug != Bug::Impatient && !horizon.is_sent(Lsn::new(self.slot), kept) {
            return 0;
        }
        let covered = |xid: i64| match bug {
            Bug::AsTheSnapshotSees => xid < xmin || xid < xmax && !top.contains(&xid),
            _ => horizon.covers(u32::try_from(xid).unwrap(), self.next),
        };
        self.rows.iter().filter(|(xid, end)| covered(*xid) && *end > self.sent).count()
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
