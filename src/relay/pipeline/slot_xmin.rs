//! `source.xmin`: the oldest transaction whose rows of the catalog the slot keeps, which is asked for from time to time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time;

use crate::postgres::{self, Sql};
use crate::relay::parts::RelayParts;
use crate::wal::Xid;

/// Last value of the slot. No transaction has the id 0.
#[derive(Debug, Clone, Default)]
pub(in crate::relay) struct SlotXmin(Arc<AtomicU32>);

impl SlotXmin {
    pub(in crate::relay) fn get(&self) -> Option<Xid> {
        Some(Xid(self.0.load(Ordering::Relaxed))).filter(|xid| xid.0 != 0)
    }

    fn set(&self, xid: Option<Xid>) {
        self.0.store(xid.map_or(0, |xid| xid.0), Ordering::Relaxed);
    }

    /// Reads it for the first time, so that the first event has it, if `xmin.fetch.interval.ms` enables it
    /// and events contain it.
    ///
    /// # Errors
    /// When the slot cannot be read.
    pub(in crate::relay) async fn first(
        parts: &RelayParts,
        sql: &Sql,
    ) -> Result<Option<Self>, postgres::Error> {
        if interval(parts).is_none() {
            return Ok(None);
        }
        let xmin = Self::default();
        xmin.set(sql.slot_xmin(&parts.postgres.slot.name).await?);
        Ok(Some(xmin))
    }

    /// Reads it periodically, until it is aborted.
    pub(in crate::relay) async fn watch(self, parts: Arc<RelayParts>, sql: Arc<Sql>) {
        let Some(interval) = interval(&parts) else { return };
        loop {
            time::sleep(interval).await;
            match sql.slot_xmin(&parts.postgres.slot.name).await {
                Ok(xid) => self.set(xid),
                // The stream fails when PostgreSQL is gone; a failure of this connection alone means nothing.
                Err(error) => tracing::debug!(%error, "the slot's xmin cannot be read"),
            }
        }
    }
}

fn interval(parts: &RelayParts) -> Option<Duration> {
    parts.postgres.slot.xmin_interval.filter(|_| parts.route.changes().is_some())
}
