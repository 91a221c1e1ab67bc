//! Parked events, dead letters and crashes in the tables.

use std::time::{Duration, Instant};

use super::dedupe::Dedupe;
use super::failure::chain;
use super::handler::Handler;
use super::telemetry::{End, Operation};
use super::work::Context;
use crate::core::{Failed, Load, Loaded, Park, Reason, Surrender};
use crate::postgres::{self, Connection, DeadNumber, Settled, Tenancy, Written};

/// Pause between two attempts to record that an event is a dead letter.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

impl<H: Handler> Context<H> {
    /// Parks events. Returns whether they are in the table.
    pub(super) async fn park(
        &self,
        connection: Option<Connection>,
        tenancy: &Tenancy,
        park: &Park,
    ) -> (bool, Option<Connection>) {
        let written = async {
            let connection = self.connection(connection).await?;
            if !connection.is_of(tenancy) {
                return Ok((false, Some(connection)));
            }
            let mut written = connection.park(tenancy, &park.events, park.failed.as_ref()).await;
            if let (Err(error), Some(failed)) = (&written, &park.failed)
                && error.is_of_the_encoding()
            {
                connection.roll_back_own().await?;
                let failed = Failed { error: in_ascii(&failed.error), ..failed.clone() };
                written = connection.park(tenancy, &park.events, Some(&failed)).await;
            }
            let written = written?;
            if written == Written::Yes {
                self.telemetry.parked(&park.tenure.partition.topic, park.events.len());
            }
            Ok::<_, postgres::Error>((written == Written::Yes, Some(connection)))
        };
        written.await.unwrap_or_else(|error| {
            tracing::warn!(error = chain(&error), "events are not parked yet");
            (false, None)
        })
    }

    /// Reads the first parked event of a lane.
    pub(super) async fn load(
        &self,
        connection: Option<Connection>,
        tenancy: &Tenancy,
        load: &Load,
    ) -> (Loaded, Option<Connection>) {
        let loaded = async {
            let connection = self.connection(connection).await?;
            if !connection.is_of(tenancy) {
                return Ok((Loaded::Unavailable, Some(connection)));
            }
            let loaded = connection.load(tenancy, &load.tenure.partition, &load.lane).await?;
            Ok::<_, postgres::Error>((loaded, Some(connection)))
        };
        loaded.await.unwrap_or_else(|error| {
            tracing::warn!(error = chain(&error), "a parked event is not read yet");
            (Loaded::Unavailable, None)
        })
    }

    /// Returns the indexes of the partitions that another session has taken since.
    pub(super) async fn find_lost(
        &self,
        connection: Option<Connection>,
        held: &[Tenancy],
    ) -> (Vec<usize>, Option<Connection>) {
        let found = async {
            let connection = self.connection(connection).await?;
            Ok::<_, postgres::Error>((postgres::find_lost(&connection, held).await?, connection))
        };
        match found.await {
            Ok((lost, connection)) => (lost, Some(connection)),
            Err(error) => {
                tracing::debug!(error = chain(&error), "cannot check which partitions are held; retrying");
                (Vec::new(), None)
            }
        }
    }

    /// Writes an event to its retry topic or as a dead letter, and then updates its rows in PostgreSQL. Returns
    /// `Written::Fenced` if they cannot be updated, since the partition has to be taken again.
    pub(super) async fn surrender(
        &self,
        tenancy: Option<&Tenancy>,
        surrender: &Surrender,
    ) -> (Written, Option<Connection>) {
        let attempts = surrender.attempts.saturating_add(self.attempts_before(&surrender.event));
        let began = Instant::now();
        // An event that does not fit into its retry topic becomes a dead letter.
        let retried = match self.retry_topic(surrender) {
            Some((topic, wait)) if self.dead_letters.write_retry(&topic, surrender, attempts, wait).await => {
                Some(topic)
            }
            _ => None,
        };
        let (topic, end) = if let Some(topic) = retried {
            (topic, End::RetryTopic)
        } else {
            self.dead_letters.write(&self.consumer, &Surrender { attempts, ..surrender.clone() }).await;
            (self.dead_letters.name().to_owned(), End::DeadLetter)
        };
        self.telemetry.asked(Operation::Send, Some(&topic), began.elapsed(), true);
        self.telemetry.ended(&surrender.event.topic, end, 1);
        let Some(tenancy) = tenancy else { return (Written::Yes, None) };
        let has_number = matches!(self.dedupe, Dedupe::Sequence(_));
        if surrender.reason != Reason::Crashed && !surrender.is_parked && !surrender.key_waits && !has_number
        {
            return (Written::Yes, None);
        }
        // Without this update, the event would be loaded from the table again.
        loop {
            match self.settle(tenancy, surrender).await {
                Ok((written, connection)) => return (written, Some(connection)),
                Err(error) => {
                    tracing::warn!(
                        error = chain(&error),
                        "it is not written down yet that an event is a dead letter"
                    );
                }
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// Reports whether events have numbers, so that later events may wait for an earlier one.
    pub(super) fn has_numbers(&self) -> bool {
        matches!(self.dedupe, Dedupe::Sequence(_))
    }

    /// Reports whether repeats are recognized by position.
    pub(super) fn has_positions(&self) -> bool {
        !matches!(self.dedupe, Dedupe::Ids | Dedupe::Sequence(_))
    }

    async fn settle(
        &self,
        tenancy: &Tenancy,
        surrender: &Surrender,
    ) -> Result<(Written, Connection), postgres::Error> {
        let connection = self.connection(None).await?;
        if !connection.is_of(tenancy) {
            return Ok((Written::Fenced, connection));
        }
        let settled = match surrender.key_waits {
            true => Settled::Blocks,
            false => Settled::Gone,
        };
        let number = match &self.dedupe {
            Dedupe::Sequence(source) => source.number(&surrender.event),
            _ => None,
        };
        let was_waited_for = |number| self.first_number.is_none_or(|first| number >= first);
        let number = number.map(|number| DeadNumber { number, was_waited_for: was_waited_for(number) });
        let mut written = Written::Yes;
        if surrender.is_parked || surrender.key_waits || number.is_some() {
            written = connection.settle(tenancy, &surrender.event, settled, number).await?;
        }
        if surrender.reason == Reason::Crashed {
            // Otherwise it counts against another event with this offset if the topic is created again.
            connection.forget_begun(tenancy, surrender.event.offset).await?;
        }
        Ok((written, connection))
    }
}

/// Returns a text for databases whose encoding lacks some of its characters.
fn in_ascii(text: &str) -> String {
    text.chars().map(|char| if char.is_ascii() { char } else { '?' }).collect()
}
