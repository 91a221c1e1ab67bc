//! The end of a session: confirms what is acknowledged, and waits for the records in flight before another session may begin.

use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::time::{self, timeout};

use super::{Lost, Relay};
use crate::postgres;
use crate::relay::delivery::exactly_once::Urgency;
use crate::relay::error::Error;
use crate::relay::lifecycle::control::{Target, TargetReceiver};
use crate::relay::lifecycle::link::Link;
use crate::relay::lifecycle::order::Settling;
use crate::relay::lifecycle::retry::STANDBY_INTERVAL;
use crate::relay::lifecycle::session::Session;
use crate::relay::pipeline::core::{CAUSE_TIMEOUT, Core, Draining, Ending, Limits};
use crate::relay::time::clock::Now;

/// End of a session.
impl Relay {
    /// Confirms what was acknowledged before a failure that ends the relay, so that a restart meets it first. A fatal
    /// error of the producer gives way to the refused record that caused it.
    pub(super) async fn after_failure(&self, session: &mut Session<'_, '_>, error: Error) -> Error {
        let limits = Limits { cause: CAUSE_TIMEOUT, rest: Some(self.parts.relay.shutdown_timeout) };
        let ending = Ending::new(Some(&error), session.core, Urgency::Now, limits, Now::read());
        session.drain(ending).await.unwrap_or(error)
    }

    /// Ends the stream of a session that has drained.
    pub(super) async fn end_stream(&self, session: Session<'_, '_>, target: Target) -> Result<(), Error> {
        session.report_end();
        let within = self.parts.relay.shutdown_timeout;
        let frontier = session.core.feed.out.flight.frontier();
        if !session.core.positions.is_stored(frontier) {
            tracing::warn!(lsn = %frontier, "cannot store the last position in time: it is not confirmed, \
                                             and its events are sent again");
        }
        let Link { stream, sql, position, .. } = session.link;
        let Ok(finished) = timeout(within, stream.finish()).await else {
            return Err(postgres::Error::Timeout {
                doing: "ending the stream".to_owned(),
                seconds: within.as_secs(),
            }
            .into());
        };
        finished?;
        tracing::info!("drained: everything sent is acknowledged and confirmed");
        if self.parts.postgres.slot.drop_on_stop && target == Target::Stop {
            // A process that finds no slot must know that no other client dropped it.
            position.drop_slot().await?;
            self.parts.postgres.slot.drop_slot(&sql).await?;
        }
        Ok(())
    }

    /// Waits until every record of a session that broke or did not drain in time has been reported, or a stop
    /// allows it to be repeated; so does a changed login, if the clients have lost Kafka without it. When the slot is lost and not recreated, no session can follow: the wait
    /// ends with that error.
    pub(super) async fn settle(
        &self,
        settling: &mut Settling,
        core: &mut Core<'_>,
        mut lost: Lost,
        target: &TargetReceiver,
    ) -> Option<postgres::Error> {
        loop {
            let is_refused = || self.parts.producer.deliveries().trouble().is_some();
            let gives_up =
                target.get() == Target::Stop || self.login_changed.load(Ordering::Relaxed) && is_refused();
            match settling.turn(core, gives_up, Now::read()) {
                Ok(Draining::Wait) => {}
                Ok(Draining::Purge) => self.parts.producer.purge(),
                Ok(Draining::Done | Draining::Late) | Err(_) => return None,
            }
            self.status.tick_idle(Instant::now());
            tokio::select! {
                biased;
                () = self.parts.producer.deliveries().arrived() => {}
                () = target.stops() => {}
                Some(error) = lost.recv(), if !self.parts.postgres.recovers() => return Some(error),
                () = time::sleep(STANDBY_INTERVAL) => {}
            }
        }
    }
}
