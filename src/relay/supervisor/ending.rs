use std::time::Instant;

use tokio::time::{self, timeout};
use tokio_util::sync::CancellationToken;

use super::{CAUSE_TIMEOUT, Lost, Relay, STANDBY_INTERVAL};
use crate::postgres;
use crate::relay::Error;
use crate::relay::feed::Feed;
use crate::relay::link::Link;
use crate::relay::session::Session;

/// How a session ends.
impl Relay {
    /// Confirms what was acknowledged before a failure that ends the relay, so that a restart meets it first. A fatal
    /// error of the producer gives way to the refused record that caused it.
    pub(super) async fn after_failure(&self, session: &mut Session<'_, '_>, error: Error) -> Error {
        let refused = matches!(error, Error::Kafka(_)) && !session.feed.flight.is_doubtful();
        if refused && timeout(CAUSE_TIMEOUT, session.drain()).await.is_err() {
            self.parts.producer.purge();
        }
        if timeout(self.parts.relay.shutdown_timeout, session.drain()).await.is_err() {
            tracing::warn!("not everything before the failure was acknowledged in time");
        }
        let flight = &mut session.feed.flight;
        let refusal = flight.take_refusal();
        let fault = if error.is_of_transactions() { flight.fault() } else { None };
        refusal.or(fault).unwrap_or(error)
    }

    pub(super) async fn say_goodbye(&self, session: Session<'_, '_>) -> Result<(), Error> {
        let within = self.parts.relay.shutdown_timeout;
        let Link { stream, sql, .. } = session.link;
        let Ok(finished) = timeout(within, stream.finish()).await else {
            return Err(postgres::Error::Timeout {
                doing: "ending the stream".to_owned(),
                seconds: within.as_secs(),
            }
            .into());
        };
        finished?;
        tracing::info!("drained: everything sent is acknowledged and confirmed");
        if self.parts.postgres.slot.drop_on_stop {
            self.parts.postgres.slot.drop_slot(&sql).await?;
        }
        Ok(())
    }

    /// Waits until every record of a broken session has come back, or a stop says that it may be repeated. When the slot is
    /// lost and not made anew, no session can follow: the wait ends with that error.
    pub(super) async fn settle(
        &self,
        feed: &mut Feed<'_>,
        broken: bool,
        mut lost: Lost,
        stop: &CancellationToken,
    ) -> Option<postgres::Error> {
        while broken && matches!(feed.flight.wind_up(), Ok(false)) {
            self.status.tick_idle(Instant::now());
            tokio::select! {
                biased;
                () = self.parts.producer.deliveries().arrived() => {}
                () = stop.cancelled() => return None,
                Some(error) = lost.recv(), if !self.parts.postgres.recovers() => return Some(error),
                () = time::sleep(STANDBY_INTERVAL) => {}
            }
        }
        None
    }
}
