//! Kinds of errors, for the code that decides on them.

use super::{Error, Peer};
use crate::kafka;
use crate::postgres;

impl Error {
    /// Returns the table of the row that failed.
    pub(in crate::relay) fn table(&self) -> Option<&str> {
        match self {
            Self::Row { table, .. } => Some(table),
            _ => None,
        }
    }

    /// Returns whether Kafka acknowledged a record that it may not have written.
    pub(in crate::relay) const fn is_unwritten(&self) -> bool {
        matches!(self, Self::Kafka(kafka::Error::Unwritten(_)))
    }

    /// Returns whether a slot to continue from is missing that existed before.
    pub(in crate::relay) const fn is_lost_slot(&self) -> bool {
        matches!(
            self,
            Self::Postgres(postgres::Error::SlotLost { .. })
                | Self::OffsetWithoutSlot { .. }
                | Self::StateWithoutSlot { .. }
        )
    }

    /// Returns whether the server is a standby: the primary of before, or of later.
    pub(in crate::relay) const fn is_standby(&self) -> bool {
        matches!(self, Self::Postgres(postgres::Error::Standby))
    }

    /// Returns whether Kafka refused a record that the next session sends to the dead-letter topic.
    pub(in crate::relay) const fn is_condemned(&self) -> bool {
        matches!(self, Self::Condemned { .. })
    }

    /// Returns whether only a new producer can continue.
    pub(in crate::relay) const fn wants_new_producer(&self) -> bool {
        self.is_unwritten() || self.is_condemned() || self.is_of_transactions()
    }

    /// Returns whether it concerns Kafka transactions: the next session begins with a new producer.
    pub(in crate::relay) const fn is_of_transactions(&self) -> bool {
        use kafka::Error::{StateTopic, TakenBack, TopicTail, Transaction, Undecided};
        let Self::Kafka(error) = self else { return false };
        matches!(
            error,
            Transaction { .. } | StateTopic { .. } | Undecided { .. } | TakenBack { .. } | TopicTail { .. }
        )
    }

    /// Returns whether another producer has taken over outboxd's transactions, or one took too long.
    pub(in crate::relay) const fn is_fenced(&self) -> bool {
        matches!(self, Self::Kafka(kafka::Error::Transaction { fault: kafka::TransactionFault::Fenced, .. }))
    }

    /// Returns the peer that a retry must reach again.
    pub(in crate::relay) const fn peer(&self) -> Peer {
        match self {
            Self::Kafka(_) | Self::Condemned { .. } => Peer::Kafka,
            _ => Peer::Postgres,
        }
    }

    /// Returns whether the stream could not be understood.
    pub(in crate::relay) const fn is_garbled(&self) -> bool {
        use postgres::Error as Pg;
        matches!(
            self,
            Self::Decode { .. }
                | Self::Relation(_)
                | Self::Sequence(_)
                | Self::Postgres(Pg::Frame { .. } | Pg::Decode { .. } | Pg::Unexpected { .. })
        )
    }
}
