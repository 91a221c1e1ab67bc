//! The end of a process because rows are not in the stream: the next start must find the reason.

use std::time::Instant;

use tokio::time::timeout;

use super::Relay;
use crate::error::{Class, Diagnose, chain};
use crate::postgres;
use crate::relay::error::Error;
use crate::relay::lifecycle::control::{Target, TargetReceiver};
use crate::relay::lifecycle::retry::STANDBY_INTERVAL;
use crate::relay::progress::position_store::Positions;
use crate::telemetry::Component;

/// Storing a stop.
impl Relay {
    /// Stores the reason beside the position, if that requires it. While Kafka cannot be reached, the process waits for it instead of
    /// ending: a supervisor would start another one without the reason.
    pub(super) async fn store_stop(
        &self,
        positions: Option<&Positions>,
        outcome: &Result<(), Error>,
        target: &TargetReceiver,
    ) {
        let (Some(positions), Err(Error::Postgres(postgres::Error::Unpublished { problem, fix }))) =
            (positions, outcome)
        else {
            return;
        };
        let mut is_reported = false;
        while let Err(error) = positions.stop(problem, fix).await {
            if target.get() == Target::Stop || error.class() == Class::Definite {
                tracing::error!(
                    error = chain(&error),
                    "cannot store in Kafka that rows are missing in the stream: the next start cannot report it"
                );
                return;
            }
            if !std::mem::replace(&mut is_reported, true) {
                tracing::error!(
                    problem,
                    error = chain(&error),
                    "rows are missing in the stream: waiting for Kafka to store this before the process ends"
                );
            }
            self.status.down_by(Component::Kafka, &error, Instant::now());
            self.status.tick_idle(Instant::now());
            timeout(STANDBY_INTERVAL, target.stops()).await.ok();
        }
    }
}
