//! Offsets in PostgreSQL and in Kafka.

use rdkafka::error::KafkaError;
use tokio::task::JoinError;

use super::failure::chain;
use super::handler::Handler;
use super::work::Context;
use crate::core::PartitionId;
use crate::kafka::{GroupOffset, InboxContext, Partitions};
use crate::postgres::{self, Connection, End, NotStored};

/// Error of reading the offset that is committed to Kafka.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommittedError {
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    #[error("the read was aborted")]
    Aborted(#[from] JoinError),
}

/// Result of storing offsets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stored {
    All,
    Nothing,
    /// All but those with these indexes.
    AllBut(Vec<(usize, NotStored)>),
}

/// Offset from which a partition that was taken is read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beginning {
    /// Offset to seek to.
    pub(super) rewind_to: Option<i64>,
    /// Offset at which this consumer began to read the partition, if that is known.
    pub(super) began_at: Option<i64>,
}

impl Beginning {
    /// Returns the beginning at the first time that a partition is taken.
    ///
    /// A database without an offset is a new one for this consumer: it begins at the offset of the group. Unless that was committed by
    /// this consumer: then the database has been put back to a state before the partition was first taken.
    fn of(consumer: &str, stored: Option<i64>, committed: Option<&GroupOffset>) -> Self {
        let Some(committed) = committed else { return Self::default() };
        let own = committed.began.as_ref().filter(|began| &*began.consumer == consumer);
        let began_at = own.map(|began| began.offset);
        let known = stored.or(began_at);
        Self {
            rewind_to: known.filter(|known| *known < committed.offset),
            began_at: began_at.or(stored).or(Some(committed.offset)),
        }
    }
}

impl<H: Handler> Context<H> {
    /// Compares the offset that is committed to Kafka with the one in the database, at the first time that a partition is taken.
    pub(super) async fn beginning<C: InboxContext>(
        &self,
        id: &PartitionId,
        stored: Option<i64>,
        partitions: Partitions<C>,
    ) -> Result<Beginning, CommittedError> {
        let asked = id.clone();
        let committed = tokio::task::spawn_blocking(move || partitions.committed(&asked)).await??;
        let beginning = Beginning::of(&self.consumer, stored, committed.as_ref());
        if let (Some(rewind_to), Some(committed)) = (beginning.rewind_to, committed) {
            tracing::warn!(
                topic = &*id.topic,
                partition = id.partition,
                stored,
                rewind_to,
                committed = committed.offset,
                "the offset of the consumer group is beyond the one in the database, which has been put back to an older state: \
                 reading from the database's offset, or from where this consumer began. To skip events, set \
                 inbox_partition.next_offset too"
            );
        }
        Ok(beginning)
    }

    /// Logs that the partition is read again, since the database may have lost the last transactions.
    pub(super) fn warn_moved(id: &PartitionId, offset: Option<i64>) {
        tracing::warn!(
            topic = &*id.topic,
            partition = id.partition,
            offset,
            "the database was restarted, restored or failed over, and may have lost the last transactions: reading again from the \
             offset that it has"
        );
    }

    /// Stores the offsets up to which events have ended, before they are committed to Kafka.
    pub(super) async fn store_offsets(
        &self,
        connection: Option<Connection>,
        ends: &[End],
    ) -> (Stored, Option<Connection>) {
        let stored = async {
            let connection = self.connection(connection).await?;
            let not_stored = postgres::store_offsets(&connection, ends).await?;
            Ok::<_, postgres::Error>((not_stored, connection))
        };
        match stored.await {
            Ok((not_stored, connection)) if not_stored.is_empty() => (Stored::All, Some(connection)),
            Ok((not_stored, connection)) => (Stored::AllBut(not_stored), Some(connection)),
            Err(error) => {
                tracing::warn!(error = chain(&error), "cannot store offsets; retrying");
                (Stored::Nothing, None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::kafka::Began;

    #[test]
    fn the_offset_of_the_group_counts_where_the_database_cannot_know_better() {
        let committed = |offset, began: Option<(i64, &str)>| {
            let began = began.map(|(offset, consumer)| Began { offset, consumer: Arc::from(consumer) });
            Some(GroupOffset { offset, began })
        };
        let own = |offset| committed(offset, Some((3, "payments")));
        for (stored, committed, rewind_to, began_at) in [
            (None, None, None, None),
            (Some(5), None, None, None),
            (None, committed(9, None), None, Some(9)),
            (None, committed(9, Some((3, "refunds"))), None, Some(9)),
            (None, own(9), Some(3), Some(3)),
            (None, own(3), None, Some(3)),
            (Some(5), own(9), Some(5), Some(3)),
            (Some(9), own(9), None, Some(3)),
            (Some(12), own(9), None, Some(3)),
            (Some(5), committed(9, None), Some(5), Some(5)),
        ] {
            let beginning = Beginning::of("payments", stored, committed.as_ref());
            assert_eq!(beginning, Beginning { rewind_to, began_at }, "{stored:?}, {committed:?}");
        }
    }
}
