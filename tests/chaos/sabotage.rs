//! Mistakes that a relay could make, planted beside it: a proxy at its side of the link to PostgreSQL changes the
//! messages that it receives and sends. Relay and proxy together are a relay with that mistake, and the product has no
//! code for it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::faults::{Fault, LinkFault};
use crate::lying_broker::FailuresAreSuccesses;
use crate::support::proxy::{Tamper, Tampering, Toward};

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// Received transactions are confirmed at once.
    ConfirmsOnReceive,
    /// A keepalive is confirmed although transactions before it are on their way.
    ConfirmsKeepalives,
    /// The transaction behind the acknowledged ones is confirmed with them.
    ConfirmsTheNext,
    /// A row whose LSN is not beyond the last row's is taken for a repeat.
    RowLsnIsIdentity,
    /// The first row of a connection is taken for a repeat.
    SkipsFirstRow,
    /// Dead letters are not waited for: a transaction of nothing else is confirmed with the one before it.
    LettersNotAwaited,
    /// A failed report counts as an acknowledgement.
    FailureIsSuccess,
    /// Every hundredth row comes twice.
    Stutters,
    /// A row is held back behind the next one now and then.
    Overtakes,
    /// Every hundredth payload is changed.
    Scribbles,
    /// Events are made up that were never committed.
    Invents,
}

impl Sabotage {
    pub(crate) const ALL: [Self; 11] = [
        Self::ConfirmsOnReceive,
        Self::ConfirmsKeepalives,
        Self::ConfirmsTheNext,
        Self::RowLsnIsIdentity,
        Self::SkipsFirstRow,
        Self::LettersNotAwaited,
        Self::FailureIsSuccess,
        Self::Stutters,
        Self::Overtakes,
        Self::Scribbles,
        Self::Invents,
    ];

    /// Those that change rows which are inserted, wherever they go.
    pub(crate) const OF_INSERTS: [Self; 5] =
        [Self::SkipsFirstRow, Self::Stutters, Self::Overtakes, Self::Scribbles, Self::Invents];

    /// Returns the oracle that must find it.
    pub(crate) const fn oracle(self) -> &'static str {
        match self {
            Self::ConfirmsOnReceive
            | Self::ConfirmsKeepalives
            | Self::ConfirmsTheNext
            | Self::LettersNotAwaited => "L6",
            Self::RowLsnIsIdentity | Self::SkipsFirstRow | Self::FailureIsSuccess => "L1",
            Self::Stutters => "L5",
            Self::Overtakes => "L3",
            Self::Scribbles => "L4",
            Self::Invents => "L2",
        }
    }

    /// Returns the tampering with the link to PostgreSQL.
    pub(crate) fn of_postgres(self) -> Option<Tampering> {
        (self != Self::FailureIsSuccess)
            .then(|| -> Tampering { Arc::new(move || Box::new(Saboteur::new(self))) })
    }

    /// Returns the tampering with the link to Kafka.
    pub(crate) fn of_kafka(self, topics: Vec<String>) -> Option<Tampering> {
        (self == Self::FailureIsSuccess)
            .then(|| -> Tampering { Arc::new(move || Box::new(FailuresAreSuccesses::new(topics.clone()))) })
    }

    /// Returns the fault without which it has no effect: acknowledgements are missing for a while, or a batch is
    /// refused.
    pub(crate) const fn occasion(self) -> Fault {
        match self {
            Self::FailureIsSuccess => Fault::KafkaLink(LinkFault::Garbled),
            _ => Fault::KafkaLink(LinkFault::Held),
        }
    }
}

/// Of one connection. All positions are those of the messages.
struct Saboteur {
    sabotage: Sabotage,
    keepalive: u64,
    /// The ends of the received and unconfirmed transactions, and whether each consists of dead letters only.
    commits: VecDeque<(u64, bool)>,
    open: Open,
    rows: u64,
    last_row_lsn: u64,
    held: Option<Vec<u8>>,
    confirmed: u64,
}

/// Content of the transaction that is being received.
#[derive(Default)]
struct Open {
    rows: u64,
    letters: u64,
}

/// Offsets of the parts of a message: CopyData's type and length, then XLogData's `w` and three positions, or the
/// status update's `r` and positions.
const KIND: usize = 5;
const XLOG_START: usize = 6;
const PAYLOAD: usize = 30;
const UPDATE_WRITTEN: usize = 6;
const UPDATE_FLUSHED: usize = 14;
const UPDATE_APPLIED: usize = 22;
/// Behind an Insert's type, the table's id, `N` and the number of columns.
const COLUMNS: usize = PAYLOAD + 8;

impl Saboteur {
    fn new(sabotage: Sabotage) -> Self {
        Self {
            sabotage,
            keepalive: 0,
            commits: VecDeque::new(),
            open: Open::default(),
            rows: 0,
            last_row_lsn: 0,
            held: None,
            confirmed: 0,
        }
    }

    fn heard(&mut self, message: &mut Vec<u8>) {
        match (message[KIND], message.get(PAYLOAD)) {
            (b'k', _) => self.keepalive = number(message, KIND + 1),
            (b'w', Some(b'I')) => self.row(message),
            (b'w', Some(b'C')) => {
                // Type, flags, the commit's position, the transaction's end.
                let Open { rows, letters } = std::mem::take(&mut self.open);
                self.commits.push_back((number(message, PAYLOAD + 10), rows > 0 && rows == letters));
            }
            _ => {}
        }
        if message.get(PAYLOAD).is_some_and(|kind| *kind != b'I')
            && let Some(held) = self.held.take()
        {
            message.splice(..0, held);
        }
    }

    fn row(&mut self, message: &mut Vec<u8>) {
        self.rows += 1;
        self.open.rows += 1;
        // The second column is NULL.
        self.open.letters += u64::from(message.get(COLUMNS + 5 + 36) == Some(&b'n'));
        let lsn = number(message, XLOG_START);
        match self.sabotage {
            Sabotage::SkipsFirstRow if self.rows == 1 => message.clear(),
            Sabotage::RowLsnIsIdentity if lsn <= self.last_row_lsn => message.clear(),
            Sabotage::Stutters if self.rows.is_multiple_of(100) => message.extend_from_within(..),
            Sabotage::Scribbles if self.rows.is_multiple_of(100) => {
                if let Some(at) = message.windows(7).position(|part| part == b"\"pad\":\"") {
                    message[at + 1] = b'P';
                }
            }
            Sabotage::Invents if self.rows.is_multiple_of(100) => invent(message),
            Sabotage::Overtakes => self.overtake(message),
            _ => {}
        }
        self.last_row_lsn = self.last_row_lsn.max(lsn);
    }

    /// Moves every tenth row behind the next, if that one follows at once. Each place retains its position: the relay
    /// refuses decreasing positions.
    fn overtake(&mut self, message: &mut Vec<u8>) {
        match self.held.take() {
            Some(mut held) => {
                held[XLOG_START..PAYLOAD].swap_with_slice(&mut message[XLOG_START..PAYLOAD]);
                message.append(&mut held);
            }
            None if self.rows.is_multiple_of(10) => self.held = Some(std::mem::take(message)),
            None => {}
        }
    }

    fn said(&mut self, message: &mut [u8]) {
        let flushed = number(message, UPDATE_FLUSHED);
        let told = match self.sabotage {
            Sabotage::ConfirmsOnReceive => number(message, UPDATE_WRITTEN),
            Sabotage::ConfirmsKeepalives => flushed.max(self.keepalive),
            Sabotage::ConfirmsTheNext => self.behind(flushed, |_| true, 1),
            Sabotage::LettersNotAwaited => self.behind(flushed, |letters| letters, usize::MAX),
            _ => return,
        };
        self.confirmed = self.confirmed.max(told);
        for place in [UPDATE_FLUSHED, UPDATE_APPLIED] {
            message[place..place + 8].copy_from_slice(&self.confirmed.to_be_bytes());
        }
    }

    /// Returns the end of the transactions behind this position that match `such`, at most `most` of them.
    fn behind(&mut self, flushed: u64, such: impl Fn(bool) -> bool, most: usize) -> u64 {
        while self.commits.front().is_some_and(|(end, _)| *end <= flushed) {
            self.commits.pop_front();
        }
        let next = self.commits.iter().take(most).take_while(|(_, letters)| such(*letters));
        next.last().map_or(flushed, |(end, _)| *end)
    }
}

impl Tamper for Saboteur {
    fn message(&mut self, toward: Toward, message: &mut Vec<u8>) {
        if message.first() != Some(&b'd') {
            return;
        }
        match toward {
            Toward::Client => self.heard(message),
            Toward::Server if message[KIND] == b'r' => self.said(message),
            Toward::Server => {}
        }
    }
}

/// Adds a row with another id, in its own column and in the payload, behind the row.
fn invent(message: &mut Vec<u8>) {
    let id = message[COLUMNS + 5..COLUMNS + 5 + 36].to_vec();
    let mut other = message.clone();
    let places: Vec<usize> = (0..other.len() - id.len()).filter(|at| other[*at..].starts_with(&id)).collect();
    for place in places {
        other[place] = if id[0] == b'0' { b'1' } else { b'0' };
    }
    message.append(&mut other);
}

fn number(message: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(message[at..at + 8].try_into().unwrap())
}
