//! What an error is about, for those who decide what follows.

use super::{Error, Peer};
use crate::kafka;
use crate::postgres;

impl Error {
    /// The table whose row it is about.
    pub(in crate::relay) fn table(&self) -> Option<&str> {
        match self {
            Self::Row { table, .. } => Some(table),
            _ => None,
        }
    }

    /// Whether Kafka acknowledged a record that it may not have written.
    pub(in crate::relay) const fn is_unwritten(&self) -> bool {
        matches!(self, Self::Kafka(kafka::Error::Unwritten(_)))
    }

    /// Whether there is no slot to go on from, though there was one.
    pub(in crate::relay) const fn is_lost_slot(&self) -> bool {
        matches!(
            self,
            Self::Postgres(postgres::Error::SlotLost { .. })
                | Self::OffsetWithoutSlot { .. }
                | Self::StateWithoutSlot { .. }
        )
    }

    /// Whether the server is a standby: one that was its primary before, or will be.
    pub(in crate::relay) const fn is_standby(&self) -> bool {
        matches!(self, Self::Postgres(postgres::Error::Standby))
    }

    /// Whether Kafka refused a record that the next session sends to the dead-letter topic.
    pub(in crate::relay) const fn is_condemned(&self) -> bool {
        matches!(self, Self::Condemned { .. })
    }

    /// Whether the producer can go on only as a new one.
    pub(in crate::relay) const fn wants_new_producer(&self) -> bool {
        self.is_unwritten() || self.is_condemned() || self.is_of_transactions()
    }

    /// Whether it is about Kafka transactions: the next session begins with a new producer.
    pub(in crate::relay) const fn is_of_transactions(&self) -> bool {
        use kafka::Error::{StateTopic, TakenBack, TopicTail, Transaction, Undecided};
        let Self::Kafka(error) = self else { return false };
        matches!(
            error,
            Transaction { .. } | StateTopic { .. } | Undecided { .. } | TakenBack { .. } | TopicTail { .. }
        )
    }

    /// Whether another producer has taken over our transactions, or one took too long.
    pub(in crate::relay) const fn is_fenced(&self) -> bool {
        matches!(self, Self::Kafka(kafka::Error::Transaction { fault: kafka::TransactionFault::Fenced, .. }))
    }

    /// Who is reached again after it.
    pub(in crate::relay) const fn peer(&self) -> Peer {
        match self {
            Self::Kafka(_) | Self::Condemned { .. } => Peer::Kafka,
            _ => Peer::Postgres,
        }
    }

    /// Whether the stream could not be understood.
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
