//! The reaction to a failure: executes the decision of `relay::lifecycle::order`, up to the pause before the next attempt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Relay;
use crate::error::chain;
use crate::kafka;
use crate::relay::error::Error;
use crate::relay::lifecycle::control::{Target, TargetReceiver};
use crate::relay::lifecycle::memory::Memory;
use crate::relay::lifecycle::order::{Circumstances, react};
use crate::relay::lifecycle::retry::{self, Next, Step};
use crate::telemetry::Component;

/// Reaction to a failure.
impl Relay {
    /// Does what has to follow a failure, up to the pause before the next attempt; or gives the error back when it ends the
    /// relay.
    pub(super) async fn endure(
        &self,
        error: Error,
        circumstances: Circumstances,
        memory: &mut Memory,
    ) -> Result<Duration, Error> {
        let (pause, producer) = match react(&error, circumstances, memory) {
            Next::Stop => return Err(error),
            Next::Lasts => {
                return Err(retry::doubtful(&error).map(|error| error.that_lasts().into()).unwrap_or(error));
            }
            Next::NewProducer => (Duration::ZERO, retry::Producer::New),
            Next::Retry { pause, producer } => (pause, producer),
            Next::StandBy { pause } => (pause, retry::Producer::Same),
        };
        if circumstances.step == Step::Session || error.is_condemned() {
            self.metrics.reconnect(error.peer());
        }
        match producer {
            retry::Producer::New => self.renew_producer(&error).await?,
            retry::Producer::Same => {
                let of_kafka = matches!(error, Error::Kafka(_));
                let component = if of_kafka { Component::Kafka } else { Component::Postgres };
                self.status.down_by(component, &error, Instant::now());
            }
        }
        Ok(pause)
    }

    /// Replaces a producer whose reports may be wrong; nothing of it is in flight any more.
    async fn renew_producer(&self, error: &Error) -> Result<(), Error> {
        if error.is_condemned() {
            tracing::info!(
                "Kafka refused a record: a new producer sends all unconfirmed events again, or the \
                 running snapshot"
            );
        } else {
            tracing::warn!(error = chain(error), "a new producer sends the record and those after it again");
        }
        self.replace_producer().await
    }

    /// Replaces the producer and gives up its records in flight.
    pub(super) async fn replace_producer(&self) -> Result<(), Error> {
        let parts = Arc::clone(&self.parts);
        // Ending the old one waits for its threads.
        let renewed = tokio::task::spawn_blocking(move || parts.producer.renew()).await;
        renewed.unwrap_or_else(|_| Err(kafka::Error::Fatal("it cannot be replaced".to_owned())))?;
        Ok(())
    }

    /// Replaces the producer after a change of the login at Kafka.
    pub(super) async fn use_changed_login(&self) {
        if let Err(error) = self.replace_producer().await {
            // Of a certificate and its key, one may be the last one still.
            tracing::warn!(
                component = "kafka",
                error = chain(&error),
                "the changed login cannot be used; the last one still is"
            );
        }
    }

    pub(super) fn circumstances(
        &self,
        step: Step,
        time_left: Option<Duration>,
        target: &TargetReceiver,
    ) -> Circumstances {
        let logged_in = self.status.snapshot().condition(Component::Postgres).is_up();
        Circumstances {
            step,
            logged_in,
            stopping: target.get() == Target::Stop,
            retries_max: self.parts.relay.retries_max,
            time_left,
            now: Instant::now(),
            jitter: fastrand::f64(),
        }
    }
}
