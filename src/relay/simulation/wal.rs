//! What is committed: the write-ahead log as logical decoding sees it.

use fastrand::Rng;

use super::table::{self, Becomes, OTHER, OUTBOX};
use super::truth::{Event, Truth};
use crate::wal::{Oid, PgTimestamp};

const KEYS: u8 = 6;

const FIRST_XID: u32 = 700;
/// When every simulation begins. The relays' clock stands still; each transaction commits later than the last.
pub(super) const BEGAN_UNIX_US: i64 = 1_700_000_000_000_000;

/// More than clocks and commit records may disagree by.
const SECONDS_BETWEEN_US: i64 = 10_000_000;

/// A piece of the WAL that is sent in one go.
#[derive(Debug)]
pub(super) enum Piece {
    Transaction {
        commit: u64,
        end: u64,
        xid: u32,
        at: PgTimestamp,
        changes: Vec<Change>,
        unpublished: bool,
    },
    /// A logical message outside a transaction, with its record.
    Message {
        start: u64,
        end: u64,
        bytes: Vec<u8>,
    },
}

#[derive(Debug)]
pub(super) struct Change {
    pub(super) lsn: u64,
    /// The relation and its shape, for rows.
    pub(super) relation: Option<(Oid, usize)>,
    pub(super) bytes: Vec<u8>,
}

impl Piece {
    /// It is sent again unless the confirmed position lies beyond this.
    pub(super) const fn decides(&self) -> u64 {
        match self {
            Self::Transaction { commit, .. } => *commit,
            Self::Message { start, .. } => *start,
        }
    }

    pub(super) const fn end(&self) -> u64 {
        match self {
            Self::Transaction { end, .. } | Self::Message { end, .. } => *end,
        }
    }
}

#[derive(Debug)]
pub(super) struct Wal {
    pub(super) pieces: Vec<Piece>,
    pub(super) end: u64,
    xid: u32,
    /// It never goes back, even if the history does.
    pub(super) clock: PgTimestamp,
    /// How the outbox looks now.
    pub(super) shape: usize,
    pub(super) published: bool,
}

impl Wal {
    pub(super) fn new() -> Self {
        Self {
            pieces: Vec::new(),
            end: 1000,
            xid: FIRST_XID,
            clock: PgTimestamp::from_unix_us(BEGAN_UNIX_US),
            shape: 0,
            published: true,
        }
    }

    /// What is behind so many pieces, or behind `floor`, is gone; where the WAL ends now.
    pub(super) fn cut(&mut self, pieces: usize, floor: u64) -> u64 {
        self.pieces.truncate(pieces);
        self.end = self.pieces.last().map_or(floor, |piece| piece.end().max(floor));
        let xids = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Transaction { xid, .. } => Some(*xid),
            Piece::Message { .. } => None,
        });
        self.xid = xids.max().unwrap_or(FIRST_XID);
        self.end
    }

    /// Other databases write, or a transaction rolls back.
    pub(super) fn write_noise(&mut self, rng: &mut Rng) {
        self.end += rng.u64(1..200);
    }

    /// A transaction commits, or a message is written outside one.
    pub(super) fn commit(&mut self, rng: &mut Rng, truth: &mut Truth) {
        if rng.u8(..) < 20 {
            return self.write_message(rng, truth);
        }
        // Its rows may lie between those of earlier transactions, and may be a COPY's, which share an LSN.
        let mut lsn = self.end.saturating_sub(rng.u64(0..120)).max(900);
        let copies = rng.u8(..) < 60;
        let rows = if rng.u8(..) < 12 { rng.usize(8..24) } else { rng.usize(0..4) };
        let commit = self.end.max(lsn + 8 * (rows as u64 + 1)) + if rng.bool() { 0 } else { rng.u64(8..40) };
        let mut changes = Vec::new();
        for _ in 0..rows {
            changes.push(self.change(rng, truth, lsn, commit));
            lsn += if copies { 0 } else { rng.u64(1..=8) };
        }
        self.xid += 1;
        self.end = commit + 48;
        let (end, xid, unpublished) = (self.end, self.xid, !self.published);
        self.clock = PgTimestamp(self.clock.0 + SECONDS_BETWEEN_US);
        self.pieces.push(Piece::Transaction { commit, end, xid, at: self.clock, changes, unpublished });
    }

    fn change(&self, rng: &mut Rng, truth: &mut Truth, lsn: u64, commit: u64) -> Change {
        let shape = self.shape;
        match rng.u8(..) {
            0..30 => Change { lsn, relation: Some((OTHER, 0)), bytes: table::noise(OTHER, false) },
            30..45 => Change { lsn, relation: Some((OUTBOX, shape)), bytes: table::noise(OUTBOX, true) },
            45..60 => {
                let (number, topic, key) = self.event(rng, truth, commit, false);
                Change { lsn, relation: None, bytes: table::message(lsn, true, number, topic, key) }
            }
            60.. => {
                let (number, topic, key) = self.event(rng, truth, commit, !self.published);
                let bytes = table::insert(shape, number, topic, key);
                Change { lsn, relation: Some((OUTBOX, shape)), bytes }
            }
        }
    }

    fn write_message(&mut self, rng: &mut Rng, truth: &mut Truth) {
        let (start, end) = (self.end, self.end + rng.u64(8..80));
        let (number, topic, key) = self.event(rng, truth, start, false);
        self.end = end;
        self.pieces.push(Piece::Message {
            start,
            end,
            bytes: table::message(end, false, number, topic, key),
        });
    }

    fn event(
        &self,
        rng: &mut Rng,
        truth: &mut Truth,
        commit_lsn: u64,
        unpublished: bool,
    ) -> (usize, usize, u8) {
        let (topic, key) = (rng.usize(0..2), rng.u8(0..KEYS));
        let event = Event { commit_lsn, topic, key, of: None, excused: false, unpublished, written: false };
        let number = truth.commit(event.clone());
        let elsewhere = match table::becomes(&table::key(key)) {
            Becomes::Record => return (number, topic, key),
            Becomes::RecordAndTombstone => topic,
            Becomes::RecordAndTombstoneElsewhere => 1 - topic,
        };
        truth.commit(Event { topic: elsewhere, of: Some(number), ..event });
        (number, topic, key)
    }
}
