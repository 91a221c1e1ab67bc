//! The ledger: from a transaction's `Begin` to its last acknowledgement.

use std::collections::VecDeque;
use std::hint::black_box;

use criterion::Criterion;
use outboxd::internals::ack::{Ledger, Ticket};
use pg_replication::wal::{Lsn, PgTimestamp, Xid};

use crate::input;
use crate::measured::step;

/// Transactions that are not acknowledged yet when one is.
const IN_FLIGHT: [(&str, usize); 2] = [("ledger/one in flight", 1), ("ledger/1000 in flight", 1000)];

pub(crate) fn benches(criterion: &mut Criterion) {
    for (name, in_flight) in IN_FLIGHT {
        let mut ledger = Ledger::new(Lsn::ZERO);
        let mut tickets = VecDeque::new();
        let mut lsn = 0;
        let mut transaction = || {
            lsn += 1;
            tickets.push_back(issue(&mut ledger, Lsn::new(lsn)));
            if tickets.len() >= in_flight {
                ledger.acknowledge(tickets.pop_front().unwrap(), u64::from(input::ROWS)).unwrap();
            }
        };
        (0..in_flight).for_each(|_| transaction());
        step(criterion, name, input::ROWS, transaction);
    }
}

/// Issues a transaction like the feed.
fn issue(ledger: &mut Ledger, lsn: Lsn) -> Ticket {
    ledger.begin(lsn, PgTimestamp(0), Xid(input::XID)).unwrap();
    let tickets = (0..input::ROWS).map(|_| black_box(ledger.issue().unwrap()));
    let ticket = tickets.last().unwrap();
    ledger.commit(lsn, lsn).unwrap();
    ticket
}
