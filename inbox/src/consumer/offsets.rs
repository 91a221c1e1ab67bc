//! Offsets in PostgreSQL and in Kafka.

use rdkafka::error::KafkaError;
use tokio::task::JoinError;

use super::failure::chain;
use super::handler::Handler;
use super::work::Context;
use crate::core::PartitionId;
use crate::kafka::{InboxContext, Partitions};
use crate::postgres::{self, Connection, End};

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
    /// All but those with these indexes: their partitions were taken in another incarnation of the database, or in a newer state of its
    /// tables.
    ElsewhereTaken(Vec<usize>),
}

impl<H: Handler> Context<H> {
    /// Returns the offset to seek to if the offset committed to Kafka is beyond the one in the database.
    pub(super) async fn rewind_to<C: InboxContext>(
        &self,
        id: &PartitionId,
        stored: Option<i64>,
        partitions: Partitions<C>,
    ) -> Result<Option<i64>, CommittedError> {
        let Some(stored) = stored else { return Ok(None) };
        let asked = id.clone();
        let committed = tokio::task::spawn_blocking(move || partitions.committed(&asked)).await??;
        let Some(committed) = committed.filter(|committed| *committed > stored) else { return Ok(None) };
        tracing::warn!(
            topic = &*id.topic,
            partition = id.partition,
            stored,
            committed,
            "the offset of the consumer group is beyond the one in the database, which has been put back to an older state: \
             reading from the database's offset. To skip events, set inbox_partition.next_offset too"
        );
        Ok(Some(stored))
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
            let moved = postgres::store_offsets(&connection, ends).await?;
            Ok::<_, postgres::Error>((moved, connection))
        };
        match stored.await {
            Ok((moved, connection)) if moved.is_empty() => (Stored::All, Some(connection)),
            Ok((moved, connection)) => (Stored::ElsewhereTaken(moved), Some(connection)),
            Err(error) => {
                tracing::warn!(error = chain(&error), "cannot store offsets; retrying");
                (Stored::Nothing, None)
            }
        }
    }
}
