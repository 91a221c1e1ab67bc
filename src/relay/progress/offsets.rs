//! Reads and writes the connector's source offset where Debezium stores it, for the way there and back.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::offset_file;
use crate::error::chain;
use crate::kafka::{self, OffsetTopic, StoredValue};
use crate::postgres::SlotFacts;
use crate::relay::error::Error;
use crate::relay::options::{OffsetOptions, OffsetStore};
use crate::relay::parts::RelayParts;
use crate::source_offset::{OffsetKey, SourceOffset};
use crate::wal::PgTimestamp;

/// Time that reading the offset topic to its end may take. Connect's has 25 partitions and is compacted.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Between two writes there is at least so long, also with `offset.flush.interval.ms=0`.
const FLUSH_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Debezium's storage of the connector's source offset: read at the first start, written while the relay
/// runs.
#[derive(Debug, Clone)]
pub(in crate::relay) struct Offsets(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    key: OffsetKey,
    flush_interval: Duration,
    flush_timeout: Duration,
}

#[derive(Debug)]
enum Store {
    Topic(Box<OffsetTopic>),
    File(PathBuf),
}

impl Offsets {
    /// Opens the store that the configuration names, if any.
    pub(in crate::relay) fn new(parts: &RelayParts) -> Result<Option<Self>, Error> {
        let Some(OffsetOptions { store, key, flush_interval, flush_timeout }) = parts.relay.offsets.clone()
        else {
            return Ok(None);
        };
        let store = match store {
            OffsetStore::Topic(name) => {
                Store::Topic(Box::new(OffsetTopic::new(&parts.kafka, &name, flush_timeout)?))
            }
            OffsetStore::File(path) => Store::File(path),
        };
        Ok(Some(Self(Arc::new(Inner { store, key, flush_interval, flush_timeout }))))
    }

    /// Reads the offset that is stored for this connector, if there is one.
    pub(in crate::relay) async fn read(&self) -> Result<Option<SourceOffset>, Error> {
        let inner = Arc::clone(&self.0);
        let value = spawn_blocking(move || inner.read()).await;
        let value = value
            .unwrap_or_else(|_| Err(kafka::Error::Fatal("the reading was aborted".to_owned()).into()))?;
        let Some(StoredValue { bytes, stored_at_ms }) = value else {
            tracing::info!(store = self.0.store.name(), key = %self.0.key, "no offset is stored");
            return Ok(None);
        };
        let mut offset = SourceOffset::parse(&bytes).map_err(|source| Error::NoOffset {
            store: self.0.store.name(),
            key: self.0.key.to_string(),
            source,
        })?;
        tracing::info!(
            store = self.0.store.name(), key = %self.0.key, %offset,
            "resuming from the stored offset"
        );
        // A logical message outside a transaction has no commit time. What was sent before it was stored had committed.
        let stored_at = stored_at_ms.map(|ms| PgTimestamp::from_unix_us(ms.saturating_mul(1_000)));
        offset.committed_at = offset.committed_at.or(stored_at);
        Ok(Some(offset))
    }

    /// Reads the offset of a connector that has used the slot before.
    pub(in crate::relay) async fn read_for(&self, slot: &SlotFacts) -> Result<Option<SourceOffset>, Error> {
        let stored = self.read().await?;
        let confirmed = slot.confirmed_flush_lsn.unwrap_or_default();
        match stored.as_ref().map(SourceOffset::furthest) {
            Some(offset) if offset < confirmed => {
                tracing::warn!(
                    store = self.store(), %offset, slot_at = %confirmed,
                    "the slot is ahead of the stored offset. After a crash this is normal. Otherwise the \
                     slot was moved, and rows written in between are not sent"
                );
                Ok(stored)
            }
            Some(offset) if offset > slot.server_lsn => {
                Err(Error::OffsetAhead { store: self.store(), offset, wal_end: slot.server_lsn })
            }
            _ => Ok(stored),
        }
    }

    /// Stores the newest offset at each `offset.flush.interval.ms`, when it has changed.
    pub(in crate::relay) async fn keep(
        self,
        mut offset: watch::Receiver<Option<SourceOffset>>,
        stop: CancellationToken,
    ) {
        loop {
            if stop.run_until_cancelled(sleep(self.0.flush_interval.max(FLUSH_INTERVAL_MIN))).await.is_none()
            {
                return;
            }
            if offset.has_changed().unwrap_or(false) {
                let newest = offset.borrow_and_update().clone();
                self.write(newest).await;
            }
        }
    }

    /// Stores an offset, and returns whether it is stored. It is only needed for the way back to Debezium, so
    /// a failure is only logged.
    pub(in crate::relay) async fn write(&self, offset: Option<SourceOffset>) -> bool {
        let Some(offset) = offset else { return false };
        match self.try_write(&offset).await {
            Ok(()) => {
                tracing::debug!(store = self.0.store.name(), %offset, "offset stored");
                true
            }
            Err(error) => {
                tracing::warn!(
                    error = chain(&error),
                    "cannot store the offset for Debezium: a switch back to Debezium now repeats more events"
                );
                false
            }
        }
    }

    /// Returns what `migrate` must know of it.
    async fn look(&self) -> Result<StoredOffset, Error> {
        let is_there = self.read().await?.is_some();
        Ok(StoredOffset { store: self.store(), key: self.0.key.to_string(), is_there })
    }

    /// Returns the name of the storage, in the user's words.
    pub(in crate::relay) fn store(&self) -> String {
        self.0.store.name()
    }

    async fn try_write(&self, offset: &SourceOffset) -> Result<(), Error> {
        let Inner { store, key, flush_timeout, .. } = &*self.0;
        match store {
            Store::Topic(topic) => {
                Ok(topic.write(key.as_bytes(), &offset.to_string(), *flush_timeout).await?)
            }
            Store::File(path) => {
                let (path, key, value) = (path.clone(), key.clone(), offset.to_string());
                let writing = spawn_blocking(move || offset_file::write(&path, &key, value)).await;
                writing
                    .unwrap_or_else(|_| Err(kafka::Error::Fatal("the writing was aborted".to_owned()).into()))
            }
        }
    }
}

/// Location of Debezium's offset of a connector, whether it exists or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredOffset {
    pub(crate) store: String,
    pub(crate) key: String,
    pub(crate) is_there: bool,
}

/// Returns the offset that is stored for the connector, without a relay; `None` when its storage is not
/// configured.
pub(crate) async fn stored_offset(parts: &RelayParts) -> Result<Option<StoredOffset>, Error> {
    match Offsets::new(parts)? {
        Some(offsets) => Ok(Some(offsets.look().await?)),
        None => Ok(None),
    }
}

impl Inner {
    fn read(&self) -> Result<Option<StoredValue>, Error> {
        match &self.store {
            Store::Topic(topic) => Ok(topic.read(self.key.as_bytes(), READ_TIMEOUT)?),
            Store::File(path) => offset_file::read(path, &self.key),
        }
    }
}

impl Store {
    fn name(&self) -> String {
        match self {
            Self::Topic(topic) => format!("topic {}", topic.name()),
            Self::File(path) => format!("file {}", path.display()),
        }
    }
}
