//! Kinds of existing slots, and their effect on a relay.

use postgres_protocol::escape::escape_identifier;

use crate::postgres::catalog::facts::SlotFacts;
use crate::postgres::{Error, SlotOptions};

/// A usable slot that differs from the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotShortcoming {
    pub(crate) problem: String,
    /// Statement or setting to apply.
    pub(crate) fix: String,
}

impl SlotOptions {
    /// Refuses a slot that was created with `two_phase`: it sends a prepared transaction at PREPARE, in messages that only a
    /// subscriber which prepares it too can use. A copy of a slot has not the property.
    ///
    /// # Errors
    /// When the slot has it.
    pub(super) fn check_two_phase(&self, slot: &SlotFacts) -> Result<(), Error> {
        if !slot.two_phase {
            return Ok(());
        }
        let name = self.name.as_str();
        let aside = format!("{name:.58}_copy");
        Err(Error::Precondition {
            problem: format!(
                "replication slot {name:?} was made with two_phase: prepared transactions would come before they are committed"
            ),
            fix: format!(
                "copy it, which keeps its position and not two_phase, while SELECT gid FROM pg_prepared_xacts; returns no row: \
                 SELECT pg_copy_logical_replication_slot('{name}', '{aside}'); SELECT pg_drop_replication_slot('{name}'); \
                 SELECT pg_copy_logical_replication_slot('{aside}', '{name}'); SELECT pg_drop_replication_slot('{aside}');"
            ),
        })
    }

    /// Returns the problem if `slot.failover=true` and the slot was created without it.
    #[must_use]
    pub(crate) fn lacks_failover(&self, slot: &SlotFacts) -> Option<SlotShortcoming> {
        if !self.failover || slot.failover != Some(false) {
            return None;
        }
        let name = self.name.as_str();
        let quoted = escape_identifier(name);
        Some(SlotShortcoming {
            problem: format!(
                "slot.failover=true, and replication slot {name:?} was made without failover: no standby has it after a failover"
            ),
            fix: format!(
                "stop outboxd, then psql \"dbname={} replication=database\" -c 'ALTER_REPLICATION_SLOT {quoted} (FAILOVER true)'",
                slot.database.as_deref().unwrap_or_default()
            ),
        })
    }
}
