//! The model of PostgreSQL: a slot, and a walsender for one client at a time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use bytes::BufMut as _;
use fastrand::Rng;

use super::catalog::CatalogTable;
use super::wal::{Change, Piece, Wal};
use crate::pgoutput::encode::encode;
use crate::pgoutput::{Begin, Commit, Message};
use crate::relay::simulation::oracle::truth::Truth;
use crate::wal::{Lsn, Oid, Xid};

/// Both ends of a connection.
#[derive(Debug, Default)]
pub(in crate::relay::simulation) struct Wire {
    /// In flight to the client.
    pub(in crate::relay::simulation) bytes: Vec<u8>,
    /// Flush positions in flight to the server.
    pub(in crate::relay::simulation) updates: Vec<u64>,
    pub(in crate::relay::simulation) closed: bool,
}

#[derive(Debug)]
pub(in crate::relay::simulation) struct Server {
    pub(in crate::relay::simulation) wal: Wal,
    pub(in crate::relay::simulation) timeline: u32,
    pub(in crate::relay::simulation) confirmed: u64,
    /// Confirmed position that a crash goes back to.
    pub(super) persisted: u64,
    /// True if another client has dropped the slot.
    pub(in crate::relay::simulation) dropped: bool,
    /// Position to which another client has moved it, until a relay continues from there.
    pub(in crate::relay::simulation) moved: Option<u64>,
    /// The same of what a crash goes back to.
    pub(super) persisted_moved: Option<u64>,
    sender: Option<Sender>,
    /// Up to this piece the operator knows what is not in the stream.
    told: usize,
    /// End of each timeline.
    pub(in crate::relay::simulation) switches: Vec<(u32, u64)>,
    /// Number of crashes, each with every connection.
    pub(in crate::relay::simulation) crashes: usize,
    /// Number of times that a copy was restored.
    pub(in crate::relay::simulation) went_back: usize,
}

/// A walsender.
#[derive(Debug)]
struct Sender {
    wire: Rc<RefCell<Wire>>,
    start: u64,
    /// The next piece, and the next message of it.
    piece: usize,
    message: usize,
    /// End of the WAL that was reported to the client.
    sent: u64,
    described: HashMap<Oid, CatalogTable>,
    /// Up to this piece the missing publication needs no notice.
    noticed: usize,
}

impl Server {
    pub(in crate::relay::simulation) fn new(rng: &mut Rng, truth: &mut Truth) -> Self {
        let wal = Wal::new(rng, truth);
        Self {
            timeline: 1,
            confirmed: wal.end,
            persisted: wal.end,
            dropped: false,
            moved: None,
            persisted_moved: None,
            wal,
            sender: None,
            told: 0,
            switches: Vec::new(),
            crashes: 0,
            went_back: 0,
        }
    }

    /// Returns whether a client has the slot.
    pub(in crate::relay::simulation) fn is_in_use(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| !sender.wire.borrow().closed)
    }

    /// Handles START_REPLICATION at 0/0; returns none while the slot is in use, or gone.
    pub(in crate::relay::simulation) fn connect(&mut self) -> Option<Rc<RefCell<Wire>>> {
        if self.is_in_use() || self.dropped {
            return None;
        }
        let wire = Rc::new(RefCell::new(Wire::default()));
        let start = self.confirmed;
        self.sender = Some(Sender {
            wire: Rc::clone(&wire),
            start,
            piece: 0,
            message: 0,
            sent: start,
            described: HashMap::new(),
            noticed: self.told,
        });
        Some(wire)
    }

    /// Handles START_REPLICATION at a position of the client's own.
    pub(in crate::relay::simulation) fn skip_to(&mut self, lsn: u64) {
        if let Some(sender) = &mut self.sender {
            sender.start = sender.start.max(lsn);
        }
    }

    /// Sends a few messages, and reads the client's updates.
    pub(in crate::relay::simulation) fn act(&mut self, rng: &mut Rng, truth: &mut Truth) {
        self.read_updates(truth);
        let Some(sender) = self.sender.as_mut().filter(|sender| !sender.wire.borrow().closed) else { return };
        for _ in 0..rng.usize(0..8) {
            match rng.u8(..) < 40 {
                true => sender.keepalive(&self.wal, rng),
                false => sender.send(&self.wal),
            }
        }
    }

    /// Reads updates, and checks L4 of the task: no position beyond what was sent.
    pub(in crate::relay::simulation) fn read_updates(&mut self, truth: &mut Truth) {
        let Some(sender) = &mut self.sender else { return };
        let has_heard = !sender.wire.borrow().updates.is_empty();
        for flushed in sender.wire.borrow_mut().updates.drain(..) {
            if flushed > sender.sent {
                truth.violate(format!("L6: {flushed} is confirmed, {} was sent", sender.sent));
            }
            truth.report(|| format!("  {flushed} is confirmed"));
            if flushed > self.confirmed {
                truth.is_to_be_confirmed(flushed);
            }
            // The server believes every update, and ignores what is lower than before.
            self.confirmed = self.confirmed.max(flushed);
        }
        if has_heard {
            truth.confirmed(self.confirmed);
        }
    }

    /// Recreates the publication, moves the slot behind the rows that are missing in the stream, and sends
    /// them from the table, as an operator would.
    pub(in crate::relay::simulation) fn mend_publication(&mut self, tables: &[Oid], truth: &mut Truth) {
        self.wal.publish(tables, truth);
        truth.report_unpublished();
        self.told = self.wal.pieces.len();
        self.wal.set_published(true);
    }

    /// Restores the names of columns, sends rows that cannot be sent as they are from the table, and moves
    /// the slot behind them, as an operator would.
    pub(in crate::relay::simulation) fn move_slot(&mut self, rng: &mut Rng, truth: &mut Truth) {
        self.cut(rng, truth);
        self.wal.mend_columns(truth);
        self.make_slot();
        truth.excuse_all();
    }

    pub(in crate::relay::simulation) const fn persist(&mut self) {
        (self.persisted, self.persisted_moved) = (self.confirmed, self.moved);
    }

    /// Breaks the connection, at any byte and with any update in flight.
    pub(in crate::relay::simulation) fn cut(&mut self, rng: &mut Rng, truth: &mut Truth) {
        if let Some(sender) = &mut self.sender {
            let mut wire = sender.wire.borrow_mut();
            let (bytes, updates) = (wire.bytes.len(), wire.updates.len());
            wire.bytes.truncate(rng.usize(0..=bytes));
            wire.updates.truncate(rng.usize(0..=updates));
        }
        self.release(truth);
    }

    /// Disconnects the client of the slot.
    pub(in crate::relay::simulation) fn release(&mut self, truth: &mut Truth) {
        self.read_updates(truth);
        if let Some(sender) = self.sender.take() {
            sender.wire.borrow_mut().closed = true;
        }
    }

    /// Crashes the server and restarts it. The slot is where it was when it was last stored.
    pub(in crate::relay::simulation) fn crash(&mut self, rng: &mut Rng, truth: &mut Truth) {
        self.cut(rng, truth);
        self.crashes += 1;
        self.confirmed = self.persisted;
        self.moved = self.persisted_moved;
        truth.regressed();
    }

    /// Fails over to a standby that has the slot as it was stored, and perhaps less of the WAL. What the old
    /// primary committed behind that is gone, and other transactions get its LSNs.
    pub(in crate::relay::simulation) fn fail_over(&mut self, rng: &mut Rng, truth: &mut Truth) {
        let end = self.lose(self.persisted, rng, truth);
        self.switches.push((self.timeline, end));
        self.timeline += 1;
    }

    /// Restores a copy that was made since the slot was last stored: the same timeline, on which other
    /// transactions get the LSNs of those that are gone. Before a relay sees it, its WAL may be longer than
    /// the old one.
    pub(in crate::relay::simulation) fn go_back(&mut self, rng: &mut Rng, truth: &mut Truth) {
        let switched = self.switches.last().map_or(0, |(_, at)| *at);
        self.lose(self.persisted.max(switched), rng, truth);
        self.went_back += 1;
        for _ in 0..rng.usize(0..6) {
            self.wal.commit(rng, truth);
        }
    }

    /// Loses a part of the WAL behind `floor`; returns where the WAL ends now.
    fn lose(&mut self, floor: u64, rng: &mut Rng, truth: &mut Truth) -> u64 {
        self.crash(rng, truth);
        let pieces = &self.wal.pieces;
        let stored = pieces.iter().take_while(|piece| piece.end() <= floor).count();
        let kept = rng.usize(stored..=pieces.len());
        self.told = self.told.min(kept);
        let end = self.wal.cut(kept, floor);
        truth.forget_behind(end);
        end
    }

    /// Returns whether everything that was committed is confirmed.
    pub(in crate::relay::simulation) fn is_done(&self) -> bool {
        self.wal.pieces.last().is_none_or(|piece| self.confirmed >= piece.end())
    }
}

impl Sender {
    /// Sends one message of the next piece.
    fn send(&mut self, wal: &Wal) {
        while wal.pieces.get(self.piece).is_some_and(|piece| piece.decides() < self.start) {
            self.piece += 1;
        }
        let Some(piece) = wal.pieces.get(self.piece) else { return };
        match piece {
            Piece::Message { end, bytes, .. } => {
                self.data(*end, bytes);
                self.pass(*end);
            }
            Piece::Transaction { commit, end, xid, at, changes, unpublished, .. } => {
                if *unpublished && self.noticed <= self.piece {
                    self.noticed = usize::MAX;
                    self.notice();
                }
                let changes: Vec<&Change> =
                    changes.iter().filter(|change| !unpublished || change.relation.is_none()).collect();
                // Newer servers skip transactions without a change.
                if changes.is_empty() && self.message == 0 && xid % 2 == 0 {
                    return self.pass(*end);
                }
                let begin = Begin { final_lsn: Lsn::new(*commit), commit_time: *at, xid: Xid(*xid) };
                self.part(begin, *end, &changes);
            }
        }
    }

    fn part(&mut self, begin: Begin, end: u64, changes: &[&Change]) {
        let Begin { final_lsn: commit_lsn, commit_time, .. } = begin;
        let commit = commit_lsn.get();
        if self.message == 0 {
            let first = changes.first().map_or(commit, |change| change.lsn);
            self.data(first, &encode(&Message::Begin(begin)));
        } else if let Some(change) = changes.get(self.message - 1) {
            if let Some(relation) = change.relation
                && self.described.insert(relation.oid, relation) != Some(relation)
            {
                self.data(0, &encode(&Message::Relation(relation.relation())));
            }
            self.data(change.lsn, &change.bytes);
        } else {
            let commit = Commit { commit_lsn, end_lsn: Lsn::new(end), commit_time };
            self.data(end, &encode(&Message::Commit(commit)));
            return self.pass(end);
        }
        self.sent = self.sent.max(commit);
        self.message += 1;
    }

    fn pass(&mut self, end: u64) {
        (self.piece, self.message, self.sent) = (self.piece + 1, 0, self.sent.max(end));
    }

    /// Sends a keepalive. Inside a transaction it has the commit's LSN; outside one, something between the
    /// last piece and the next.
    fn keepalive(&mut self, wal: &Wal, rng: &mut Rng) {
        let next = wal.pieces.get(self.piece).map(Piece::decides);
        let until = next.unwrap_or(wal.end).max(self.sent);
        let at = if self.message > 0 { until } else { rng.u64(self.sent..=until) };
        self.sent = at;
        let mut body = vec![b'k'];
        body.put_u64(at);
        body.put_i64(0);
        body.put_u8(u8::from(rng.bool()));
        self.frame(b'd', &body);
    }

    fn data(&self, lsn: u64, message: &[u8]) {
        let mut body = vec![b'w'];
        body.put_u64(lsn);
        body.put_u64(lsn);
        body.put_i64(0);
        body.put_slice(message);
        self.frame(b'd', &body);
    }

    fn notice(&self) {
        let text = b"SWARNING\0VWARNING\0C55000\0Mskipped loading publication \"p\"\0Fpgoutput.c\0\0";
        self.frame(b'N', text);
    }

    fn frame(&self, tag: u8, body: &[u8]) {
        let mut wire = self.wire.borrow_mut();
        wire.bytes.put_u8(tag);
        wire.bytes.put_u32(u32::try_from(body.len() + 4).unwrap());
        wire.bytes.put_slice(body);
    }
}
