//! The wait for transactions of a predecessor that have not ended, before this producer's first one.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::kafka::consume::log_ends::LogEnd;
use crate::kafka::consume::stable_ends::StableEnds;
use crate::kafka::error::Error;
use crate::kafka::produce::clients::Clients;
use crate::kafka::produce::delivery::Deliveries;
use crate::kafka::time::Time;

/// Records before this producer's first transaction that may belong to one that has not ended: of a producer
/// that had the transactional id before, when Kafka has forgotten to write its markers. A commit of this
/// producer would commit them too, where it writes to the same partition. Without transactions there is
/// nothing of the kind.
pub struct OpenTransactions {
    clients: Arc<Clients>,
    deliveries: Deliveries,
    generation: u64,
    topics: Vec<String>,
    /// Records that are not known to be decided, once they were searched for.
    records: Option<Vec<LogEnd>>,
}

impl OpenTransactions {
    pub(in crate::kafka) fn of(clients: Arc<Clients>, deliveries: Deliveries, topics: Vec<String>) -> Self {
        let generation = deliveries.generation();
        Self { clients, deliveries, generation, topics, records: None }
    }

    /// Waits until everything is decided that was there at the first call; a topic that does not exist, or
    /// was waited for before, has nothing. Blocks for about `patience` at most, or until `stop`; may be
    /// called again.
    ///
    /// # Errors
    /// An undecided record, or the reason why this is unknown.
    pub fn wait(&mut self, patience: Duration, stop: &CancellationToken) -> Result<(), Error> {
        let Some(ends) = self.clients.stable_ends() else { return Ok(()) };
        let time = Time::new(patience, stop);
        let records = match &mut self.records {
            Some(records) => records,
            unknown @ None => unknown.insert(unsettled(ends, &self.topics, &time)?),
        };
        ends.wait(records, &time)?;
        self.topics.iter().for_each(|topic| ends.settle(topic));
        self.deliveries.hidden(self.generation, None);
        Ok(())
    }

    /// Reports the reason of the wait, with the delivery reports.
    pub fn report(&self, undecided: &Error) {
        self.deliveries.hidden(self.generation, Some(undecided));
    }
}

impl std::fmt::Debug for OpenTransactions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenTransactions").field("topics", &self.topics).finish_non_exhaustive()
    }
}

fn unsettled(ends: &StableEnds, topics: &[String], time: &Time<'_>) -> Result<Vec<LogEnd>, Error> {
    let mut records = Vec::new();
    for topic in topics {
        let found = ends.unsettled(topic, time.slice());
        records.extend(found.map_err(|error| Error::unread_tail(topic.clone(), &error))?);
    }
    Ok(records)
}
