//! Periodic checks: handlers that do not return, gauges, partitions that another session has taken.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{Ended, Loop, SLOW_AFTER};
use crate::consumer::handler::Handler;
use crate::core::Tenure;
use crate::kafka::InboxContext;
use crate::postgres::Tenancy;

impl<H: Handler, C: InboxContext> Loop<H, C> {
    /// Runs all periodic checks.
    pub(super) fn watch(&mut self) {
        self.report_slow();
        self.report_standing();
        self.check_held();
    }

    /// Checks whether the partitions with events in the table are still held. An operator who changes those events takes the
    /// partition, and a key that waits begins no transaction that would notice it.
    fn check_held(&mut self) {
        let all = self.context.has_numbers();
        let held = self.core.waiting(all).filter_map(|tenure| self.tenancies.get_key_value(tenure));
        let (tenures, tenancies): (Vec<Tenure>, Vec<Tenancy>) =
            held.map(|(tenure, tenancy)| (tenure.clone(), tenancy.clone())).unzip();
        if self.is_checking || tenures.is_empty() {
            return;
        }
        self.is_checking = true;
        let (context, connection) = (Arc::clone(&self.context), self.idle.pop());
        self.tasks.spawn(async move {
            let (lost, connection) = context.find_lost(connection, &tenancies).await;
            let lost = lost.into_iter().filter_map(|index| tenures.get(index).cloned()).collect();
            Ended::Check(lost, connection)
        });
    }

    /// Logs the handlers that have not returned: their workers handle nothing else.
    fn report_slow(&mut self) {
        let now = Instant::now();
        for work in self.at_work.values_mut().filter(|work| work.report_at <= now) {
            work.report_at = now + SLOW_AFTER;
            tracing::warn!(
                topic = &*work.event.topic,
                partition = work.event.partition,
                offset = work.event.offset,
                after = ?Duration::from_secs(now.duration_since(work.since).as_secs()),
                limit = ?self.context.handler_within,
                "a handler has not returned"
            );
        }
    }

    fn report_standing(&self) {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        self.context.telemetry.standing(&self.core.standing(), self.core.is_guard_tripped(), now_ms);
    }
}
