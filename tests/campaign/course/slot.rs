//! A slot that another client drops, with rows written before there is another one.

use std::time::Instant;

use crate::course::operations::retried;
use crate::course::trial::Trial;
use crate::support::wait::{DEADLINE, eventually};

impl Trial<'_> {
    /// Notes when the gap begins, and waits until what was committed before is confirmed: it is not lost with the slot.
    pub(super) fn begin_slot_gap(&mut self) {
        self.recover("what was before the loss of the slot");
        retried(&self.site.db, "CALL begin_slot_gap()");
        let (target, slot) = (self.site.db.current_wal_lsn(), self.services[0].name.clone());
        let sql = format!(
            "SELECT FROM pg_replication_slots WHERE slot_name = '{slot}' AND confirmed_flush_lsn >= '{target}'"
        );
        let began = Instant::now();
        while self.site.db.try_query(&sql).is_ok_and(|rows| rows.is_empty()) {
            self.services[0].look_after(&self.world.kafka);
            if self.services[0].given_up.is_some() {
                return;
            }
            if began.elapsed() > DEADLINE {
                return self
                    .complaints
                    .push("stuck: nothing is confirmed before the loss of the slot".to_owned());
            }
            self.pause(20..60);
        }
    }

    /// Drops the slot of the first service, whose relay may run.
    pub(super) fn drop_slot(&mut self) {
        if self.services[0].given_up.is_some() {
            return;
        }
        let slot = self.services[0].name.clone();
        let end = format!(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{slot}'"
        );
        let drop_it = format!("SELECT pg_drop_replication_slot('{slot}')");
        eventually(DEADLINE, "the slot is dropped", || {
            drop(self.site.db.try_query(&end));
            self.site.db.try_query(&drop_it).is_ok()
        });
        self.services[0].resent = true;
        self.note("the slot was dropped");
    }

    /// Waits until the relay streams from another slot. What is committed from then on is behind the gap.
    pub(super) fn end_slot_gap(&mut self) {
        self.recover("the loss of the slot");
        retried(&self.site.db, "UPDATE gaps SET ended = clock_timestamp()");
    }
}
