//! The order of transactions and their outstanding records; its frontier is all that may be confirmed to PostgreSQL.

use std::collections::VecDeque;

use super::LedgerError;
use crate::wal::{Lsn, PgTimestamp, Xid};

/// Most transactions that wait behind one that is not acknowledged: 4 MB of them.
const ENTRIES_MAX: usize = 100_000;

/// Names the transaction that a record belongs to. It travels with the record and comes back in its delivery report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub usize);

impl Ticket {
    /// Ticket of a record that belongs to no transaction: a heartbeat. The ledger issues no such ticket.
    pub const NONE: Self = Self(usize::MAX);

    /// Ticket of the record with the state of a Kafka transaction. The ledger issues no such ticket.
    pub const STATE: Self = Self(usize::MAX - 1);

    /// Returns whether it belongs to no transaction of the ledger.
    #[must_use]
    pub const fn is_of_no_transaction(self) -> bool {
        self.0 >= Self::STATE.0
    }
}

/// One FIFO of transactions and keepalive marks, in the order in which they arrived on the connection.
///
/// # Invariants
/// 1. Every transaction with a commit LSN below the frontier is wholly acknowledged, or had nothing to send.
/// 2. The frontier is an `end_lsn`, a mark, or where it began; it never goes back and never passes what arrived.
/// 3. A keepalive counts only once everything that arrived before it is acknowledged.
/// 4. While it is held the frontier stays.
///
/// A transaction takes one entry whatever its size; one that commits with nothing outstanding becomes a mark, and
/// neighbouring marks are one. While one partition is stuck and others flow, acknowledged entries wait behind the stuck
/// one: [`Ledger::is_full`] then stops the reading.
#[derive(Debug)]
pub struct Ledger {
    entries: VecDeque<Entry>,
    /// The ticket of the first entry.
    first: usize,
    frontier: Lsn,
    /// The commit LSN of the latest transaction.
    latest_commit: Lsn,
    /// The last transaction that was acknowledged, and had something to send.
    acknowledged: Option<(Xid, PgTimestamp)>,
    open: bool,
    held: bool,
}

#[derive(Debug)]
enum Entry {
    Transaction {
        commit_lsn: Lsn,
        end_lsn: Option<Lsn>,
        xid: Xid,
        commit_time: PgTimestamp,
        outstanding: u64,
    },
    Mark(Lsn),
}

impl Ledger {
    /// Creates an empty ledger whose frontier is the slot's `confirmed_flush_lsn`.
    #[must_use]
    pub const fn new(confirmed: Lsn) -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
            frontier: confirmed,
            latest_commit: Lsn::ZERO,
            acknowledged: None,
            open: false,
            held: false,
        }
    }

    /// Holds the frontier where it is, whatever is acknowledged, or releases it. It is held until the server
    /// is known to have the same history as before.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
        self.advance();
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// When one is open already, or it does not follow in commit order.
    pub fn begin(&mut self, commit_lsn: Lsn, commit_time: PgTimestamp, xid: Xid) -> Result<(), LedgerError> {
        if self.open {
            return Err(LedgerError::BeginInsideTransaction { commit_lsn });
        }
        if commit_lsn < self.latest_commit {
            return Err(LedgerError::CommitOrder { commit_lsn, previous: self.latest_commit });
        }
        self.latest_commit = commit_lsn;
        self.open = true;
        self.entries.push_back(Entry::Transaction {
            commit_lsn,
            end_lsn: None,
            xid,
            commit_time,
            outstanding: 0,
        });
        Ok(())
    }

    /// Issues the ticket of a record of the open transaction, which is about to be handed to the producer.
    ///
    /// # Errors
    /// When no transaction is open.
    pub fn issue(&mut self) -> Result<Ticket, LedgerError> {
        let last = self.entries.len().wrapping_sub(1);
        match self.entries.back_mut() {
            Some(Entry::Transaction { outstanding, end_lsn: None, .. }) => {
                *outstanding = outstanding.saturating_add(1);
                Ok(Ticket(self.first.wrapping_add(last)))
            }
            _ => Err(LedgerError::OutsideTransaction),
        }
    }

    /// Completes the open transaction; nothing more will be issued for it.
    ///
    /// # Errors
    /// When none is open, or the commit is not the one that `begin` announced.
    pub fn commit(&mut self, commit_lsn: Lsn, end_lsn: Lsn) -> Result<(), LedgerError> {
        let Some(Entry::Transaction { commit_lsn: announced, end_lsn: end @ None, outstanding, .. }) =
            self.entries.back_mut()
        else {
            return Err(LedgerError::OutsideTransaction);
        };
        if *announced != commit_lsn || end_lsn < commit_lsn {
            return Err(LedgerError::CommitMismatch {
                announced: *announced,
                found: commit_lsn,
                end: end_lsn,
            });
        }
        *end = Some(end_lsn);
        self.open = false;
        if *outstanding == 0 {
            self.entries.pop_back();
            self.push_mark(end_lsn);
        }
        self.advance();
        Ok(())
    }

    /// Records that all WAL before `wal_end` has been sent, as a keepalive reported. Inside a transaction
    /// that has no use.
    pub fn mark(&mut self, wal_end: Lsn) {
        if !self.open && wal_end > self.frontier {
            self.push_mark(wal_end);
            self.advance();
        }
    }

    /// Records that `count` records of a ticket are acknowledged by the broker.
    ///
    /// # Errors
    /// When the ticket has not that many outstanding.
    pub fn acknowledge(&mut self, ticket: Ticket, count: u64) -> Result<(), LedgerError> {
        let index = ticket.0.wrapping_sub(self.first);
        match self.entries.get_mut(index) {
            Some(Entry::Transaction { outstanding, .. }) if *outstanding >= count => {
                *outstanding = outstanding.saturating_sub(count);
            }
            _ => return Err(LedgerError::UnknownTicket(ticket)),
        }
        if index == 0 {
            self.advance();
        }
        Ok(())
    }

    /// Returns the frontier: everything before it is acknowledged, or had nothing to send.
    #[must_use]
    pub const fn frontier(&self) -> Lsn {
        self.frontier
    }

    /// Returns the ticket of the open transaction, if something of it is not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> Option<Ticket> {
        match self.entries.back()? {
            Entry::Transaction { end_lsn: None, outstanding: 1.., .. } => {
                Some(Ticket(self.first.wrapping_add(self.entries.len()).wrapping_sub(1)))
            }
            _ => None,
        }
    }

    /// Returns the ticket before which everything is acknowledged.
    #[must_use]
    pub const fn settled(&self) -> Ticket {
        Ticket(self.first)
    }

    /// Returns id and commit time of the last transaction before the frontier that had records.
    #[must_use]
    pub const fn last_acknowledged(&self) -> Option<(Xid, PgTimestamp)> {
        self.acknowledged
    }

    /// Returns whether nothing is outstanding; an open transaction counts as outstanding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether older transactions must be acknowledged before a further one is accepted.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.entries.len() >= ENTRIES_MAX
    }

    /// Returns whether a transaction is open.
    #[must_use]
    pub const fn in_transaction(&self) -> bool {
        self.open
    }

    /// Returns the commit time of the transaction of `ticket`, while it is in the ledger.
    #[must_use]
    pub fn commit_time(&self, ticket: Ticket) -> Option<PgTimestamp> {
        match self.entries.get(ticket.0.wrapping_sub(self.first))? {
            Entry::Transaction { commit_time, .. } => Some(*commit_time),
            Entry::Mark(_) => None,
        }
    }

    /// Returns the commit LSN of the transaction of `ticket`, while it is in the ledger.
    #[must_use]
    pub fn commit_lsn(&self, ticket: Ticket) -> Option<Lsn> {
        match self.entries.get(ticket.0.wrapping_sub(self.first))? {
            Entry::Transaction { commit_lsn, .. } => Some(*commit_lsn),
            Entry::Mark(_) => None,
        }
    }

    /// Returns the commit time of the oldest transaction that is not wholly acknowledged.
    #[must_use]
    pub fn oldest_unacknowledged(&self) -> Option<PgTimestamp> {
        match self.entries.front()? {
            Entry::Transaction { commit_time, .. } => Some(*commit_time),
            Entry::Mark(_) => None,
        }
    }

    fn push_mark(&mut self, lsn: Lsn) {
        match self.entries.back_mut() {
            Some(Entry::Mark(last)) => *last = lsn.max(*last),
            _ => self.entries.push_back(Entry::Mark(lsn)),
        }
    }

    fn advance(&mut self) {
        while let Some(entry) = self.entries.front().filter(|_| !self.held) {
            let lsn = match entry {
                Entry::Mark(lsn) => *lsn,
                Entry::Transaction { end_lsn: Some(lsn), outstanding: 0, xid, commit_time, .. } => {
                    self.acknowledged = Some((*xid, *commit_time));
                    *lsn
                }
                Entry::Transaction { .. } => return,
            };
            self.frontier = self.frontier.max(lsn);
            self.entries.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TIME: PgTimestamp = PgTimestamp(0);
    const XID: Xid = Xid(7);

    /// Possible next step; numbers choose among what is possible.
    #[derive(Debug, Clone)]
    enum Step {
        Transaction { gap: u8, records: u8, marks_inside: bool },
        Keepalive { gap: u8 },
        Acknowledge { which: usize },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        prop::collection::vec(
            prop_oneof![
                (any::<u8>(), 0u8..4, any::<bool>()).prop_map(|(gap, records, marks_inside)| {
                    Step::Transaction { gap, records, marks_inside }
                }),
                any::<u8>().prop_map(|gap| Step::Keepalive { gap }),
                any::<usize>().prop_map(|which| Step::Acknowledge { which }),
            ],
            0..200,
        )
    }

    /// The same by brute force: every arrival is stored for ever, and the prefix counted each time.
    #[derive(Default)]
    struct Naive {
        arrivals: Vec<(Lsn, usize)>,
    }

    impl Naive {
        fn frontier(&self) -> Lsn {
            let prefix = self.arrivals.iter().take_while(|(_, outstanding)| *outstanding == 0);
            prefix.map(|(lsn, _)| *lsn).max().unwrap_or_default()
        }
    }

    proptest! {
        #[test]
        fn the_frontier_is_that_of_the_naive_model(steps in steps()) {
            let (mut ledger, mut naive, mut wal) = (Ledger::new(Lsn::ZERO), Naive::default(), 1u64);
            let mut outstanding: Vec<(Ticket, usize)> = Vec::new();
            for step in steps {
                let before = ledger.frontier();
                match step {
                    Step::Transaction { gap, records, marks_inside } => {
                        let commit = Lsn::new(wal + u64::from(gap));
                        wal = commit.get() + 1;
                        ledger.begin(commit, TIME, XID).unwrap();
                        for _ in 0..records {
                            outstanding.push((ledger.issue().unwrap(), naive.arrivals.len()));
                            if marks_inside { ledger.mark(commit); }
                        }
                        prop_assert!(ledger.frontier() <= commit);
                        ledger.commit(commit, Lsn::new(wal)).unwrap();
                        naive.arrivals.push((Lsn::new(wal), usize::from(records)));
                    }
                    Step::Keepalive { gap } => {
                        wal += u64::from(gap);
                        ledger.mark(Lsn::new(wal));
                        naive.arrivals.push((Lsn::new(wal), 0));
                    }
                    Step::Acknowledge { which } if !outstanding.is_empty() => {
                        let (ticket, arrival) = outstanding.swap_remove(which % outstanding.len());
                        ledger.acknowledge(ticket, 1).unwrap();
                        naive.arrivals[arrival].1 -= 1;
                    }
                    Step::Acknowledge { .. } => {}
                }
                prop_assert_eq!(ledger.frontier(), naive.frontier());
                prop_assert!(ledger.frontier() >= before);
            }
            for (ticket, _) in outstanding {
                ledger.acknowledge(ticket, 1).unwrap();
            }
            prop_assert!(ledger.is_empty());
        }
    }

    #[test]
    fn a_keepalive_behind_an_unacknowledged_transaction_waits_for_it() {
        let mut ledger = Ledger::new(Lsn::new(5));
        ledger.begin(Lsn::new(10), TIME, XID).unwrap();
        let ticket = ledger.issue().unwrap();
        ledger.commit(Lsn::new(10), Lsn::new(11)).unwrap();
        ledger.mark(Lsn::new(50));
        assert_eq!(ledger.frontier(), Lsn::new(5));
        assert_eq!(ledger.last_acknowledged(), None);
        ledger.acknowledge(ticket, 1).unwrap();
        assert_eq!(ledger.frontier(), Lsn::new(50));
        assert_eq!(ledger.last_acknowledged(), Some((XID, TIME)));
    }

    #[test]
    fn a_ledger_that_is_held_stays_where_it_is() {
        let mut ledger = Ledger::new(Lsn::new(5));
        ledger.hold(true);
        ledger.begin(Lsn::new(10), TIME, XID).unwrap();
        let ticket = ledger.issue().unwrap();
        ledger.commit(Lsn::new(10), Lsn::new(11)).unwrap();
        ledger.acknowledge(ticket, 1).unwrap();
        ledger.mark(Lsn::new(20));
        assert_eq!(ledger.frontier(), Lsn::new(5));
        ledger.hold(false);
        assert_eq!(ledger.frontier(), Lsn::new(20));
    }

    #[test]
    fn an_acknowledged_row_of_an_open_transaction_confirms_nothing() {
        let mut ledger = Ledger::new(Lsn::ZERO);
        ledger.begin(Lsn::new(10), TIME, XID).unwrap();
        let ticket = ledger.issue().unwrap();
        ledger.acknowledge(ticket, 1).unwrap();
        ledger.mark(Lsn::new(10));
        assert_eq!(ledger.frontier(), Lsn::ZERO);
        assert_eq!(ledger.acknowledge(ticket, 1), Err(LedgerError::UnknownTicket(ticket)));
    }

    #[test]
    fn a_stuck_record_fills_the_ledger_and_no_more() {
        let mut ledger = Ledger::new(Lsn::ZERO);
        let mut stuck = None;
        for lsn in 1.. {
            if ledger.is_full() {
                break;
            }
            ledger.begin(Lsn::new(lsn), TIME, XID).unwrap();
            let ticket = ledger.issue().unwrap();
            ledger.commit(Lsn::new(lsn), Lsn::new(lsn)).unwrap();
            match stuck {
                None => stuck = Some(ticket),
                Some(_) => ledger.acknowledge(ticket, 1).unwrap(),
            }
        }
        assert_eq!((ledger.frontier(), ledger.entries.len()), (Lsn::ZERO, ENTRIES_MAX));
        ledger.acknowledge(stuck.unwrap(), 1).unwrap();
        assert!(ledger.is_empty());
    }

    #[test]
    fn marks_and_empty_transactions_take_one_entry_together() {
        let mut ledger = Ledger::new(Lsn::ZERO);
        ledger.begin(Lsn::new(1), TIME, XID).unwrap();
        ledger.issue().unwrap();
        ledger.commit(Lsn::new(1), Lsn::new(2)).unwrap();
        for lsn in 3..100 {
            ledger.begin(Lsn::new(lsn), TIME, XID).unwrap();
            ledger.commit(Lsn::new(lsn), Lsn::new(lsn)).unwrap();
            ledger.mark(Lsn::new(lsn));
        }
        assert_eq!(ledger.entries.len(), 2);
    }

    #[test]
    fn what_the_protocol_forbids_is_an_error() {
        let mut ledger = Ledger::new(Lsn::ZERO);
        assert_eq!(ledger.issue(), Err(LedgerError::OutsideTransaction));
        assert_eq!(ledger.commit(Lsn::new(1), Lsn::new(2)), Err(LedgerError::OutsideTransaction));
        ledger.begin(Lsn::new(10), TIME, XID).unwrap();
        assert!(matches!(
            ledger.begin(Lsn::new(11), TIME, XID),
            Err(LedgerError::BeginInsideTransaction { .. })
        ));
        assert!(matches!(ledger.commit(Lsn::new(9), Lsn::new(12)), Err(LedgerError::CommitMismatch { .. })));
        ledger.commit(Lsn::new(10), Lsn::new(12)).unwrap();
        assert!(matches!(ledger.begin(Lsn::new(9), TIME, XID), Err(LedgerError::CommitOrder { .. })));
    }
}
