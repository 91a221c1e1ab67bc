//! The thread that commits and aborts the transactions of a producer, since librdkafka's calls block.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::{Producer as _, PurgeConfig};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::transaction_fault::TransactionFault;
use crate::kafka::consume::log_ends::LogEnd;
use crate::kafka::error::Error;
use crate::kafka::produce::clients::{Clients, TransactionSettings};
use crate::kafka::produce::delivery::Deliveries;
use crate::kafka::produce::polled_producer::PolledProducer;
use crate::kafka::time::Time;

/// Time that a call may block before it checks whether its result is still needed. Each can be resumed.
const SLICE: Duration = Duration::from_millis(500);

/// Timeout of the abort of a transaction. If it takes longer, the next producer's beginning aborts
/// it.
const ABORT_PATIENCE: Duration = Duration::from_secs(3);

/// Timeout after which acknowledged records must have left librdkafka's count.
const COUNT_PATIENCE: Duration = Duration::from_millis(100);

/// Time for which a committed transaction may stay hidden before that is reported, and reported again.
const HIDDEN_GRACE: Duration = Duration::from_secs(10);

/// Timeout of the removal of a state, and the pause before the next attempt.
const FORGET_PATIENCE: Duration = Duration::from_secs(10);
const FORGET_PAUSE: Duration = Duration::from_secs(1);

/// Commits and aborts one producer's transactions, on a thread that may block.
pub(in crate::kafka) struct Worker {
    clients: Arc<Clients>,
    settings: TransactionSettings,
    deliveries: Deliveries,
    generation: u64,
    stop: CancellationToken,
    /// Guard that ends a blocking call when its result is not needed any more.
    _guard: DropGuard,
    tasks: JoinSet<()>,
}

impl Worker {
    pub(in crate::kafka) fn new(
        clients: Arc<Clients>,
        settings: TransactionSettings,
        deliveries: Deliveries,
    ) -> Self {
        let (stop, generation) = (CancellationToken::new(), deliveries.generation());
        let guard = stop.clone().drop_guard();
        Self { clients, settings, deliveries, generation, stop, _guard: guard, tasks: JoinSet::new() }
    }

    /// Commits the open transaction. The coordinator promises a commit before the partitions get its markers,
    /// and can forget to write them. So it is done when consumers see it.
    pub(in crate::kafka) fn commit(&mut self) {
        let (records, generation) = (self.deliveries.take_last_records(), self.generation);
        self.start(move |transaction, deliveries| {
            transaction.wait_until_counted();
            transaction.finish("committed", transaction.settings.timeout, |producer| {
                producer.commit_transaction(SLICE)
            })?;
            transaction.wait_until_seen(records, |hidden| deliveries.hidden(generation, Some(hidden)))?;
            // What is committed is committed.
            if let Err(error) = transaction.producer().begin_transaction() {
                deliveries.broke(error.to_string());
            }
            Ok(())
        });
    }

    pub(in crate::kafka) fn abort(&mut self) {
        self.start(|transaction, _| {
            let aborted =
                transaction.finish("aborted", ABORT_PATIENCE, |producer| producer.abort_transaction(SLICE));
            transaction.producer().purge(PurgeConfig::default().queue().inflight());
            aborted
        });
    }

    fn start(
        &mut self,
        act: impl FnOnce(&Transaction<'_>, &Deliveries) -> Result<(), Error> + Send + 'static,
    ) {
        let (clients, settings, stop) = (Arc::clone(&self.clients), self.settings.clone(), self.stop.clone());
        let (deliveries, generation) = (self.deliveries.clone(), self.generation);
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn_blocking(move || {
            let transaction = Transaction { clients: &clients, settings: &settings, stop: &stop };
            let outcome = act(&transaction, &deliveries);
            deliveries.ended(generation, outcome);
        });
    }
}

/// The calls, which block.
pub(in crate::kafka) struct Transaction<'t> {
    pub(in crate::kafka) clients: &'t Clients,
    pub(in crate::kafka) settings: &'t TransactionSettings,
    pub(in crate::kafka) stop: &'t CancellationToken,
}

impl Transaction<'_> {
    /// Takes the id over from the producer that had it: aborts its open transaction, and keeps it from committing. Then the
    /// first transaction is open.
    pub(in crate::kafka) fn take_over(&self, patience: Duration) -> Result<(), Error> {
        self.finish("begun", patience, |producer| producer.init_transactions(SLICE))?;
        self.producer().begin_transaction().map_err(|error| self.failed("begun", &error))
    }

    fn producer(&self) -> &PolledProducer<Deliveries> {
        self.clients.prompt()
    }

    /// Repeats a call until there is an answer, the time is over, or it is stopped.
    fn finish(
        &self,
        doing: &'static str,
        patience: Duration,
        call: impl Fn(&PolledProducer<Deliveries>) -> Result<(), KafkaError>,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + patience;
        loop {
            let error = match call(self.producer()) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let again = matches!(&error, KafkaError::Transaction(error) if error.is_retriable())
                || error.rdkafka_error_code() == Some(Code::OperationTimedOut);
            if !again || self.stop.is_cancelled() || Instant::now() >= deadline {
                return Err(self.failed(doing, &error));
            }
        }
    }

    /// Records leave librdkafka's count a moment after they were reported; while they are in it, the commit would wait for
    /// them in steps of 100 ms.
    fn wait_until_counted(&self) {
        let deadline = Instant::now() + COUNT_PATIENCE;
        while self.producer().in_flight_count() > 0 && Instant::now() < deadline {
            thread::yield_now();
        }
    }

    /// Waits until consumers see the committed records; `tell` is called periodically with the first invisible one.
    fn wait_until_seen(&self, mut records: Vec<LogEnd>, tell: impl Fn(&Error)) -> Result<(), Error> {
        let Some(ends) = self.clients.stable_ends() else { return Ok(()) };
        let deadline = Instant::now() + self.settings.timeout;
        let mut late = None;
        while let Err(hidden) = ends.wait(&mut records, &Time::new(HIDDEN_GRACE, self.stop)) {
            if self.stop.is_cancelled() || Instant::now() >= deadline {
                return Err(hidden);
            }
            tell(&hidden);
            late.get_or_insert_with(|| records.clone());
        }
        let Some(late) = late else { return Ok(()) };
        // An operator may have ended it, who can only abort.
        let time = Time::new(self.settings.timeout, self.stop);
        let Some(LogEnd { topic, partition, .. }) = ends.taken_back(&late, &time)? else { return Ok(()) };
        self.forget_state(tell)?;
        Err(Error::TakenBack { topic, partition })
    }

    /// Removes the state, which may describe the rows as being in Kafka. It is not read before this returns,
    /// and a later reader would lose the rows: so it is tried again until it is gone.
    fn forget_state(&self, tell: impl Fn(&Error)) -> Result<(), Error> {
        let Some((state, key)) = &self.settings.state else { return Ok(()) };
        while let Err(error) = state.forget(key.as_bytes(), FORGET_PATIENCE, self.stop) {
            tell(&error);
            let stopped = timeout(FORGET_PAUSE, self.stop.cancelled());
            if Handle::current().block_on(stopped).is_ok() {
                return Err(error);
            }
        }
        Ok(())
    }

    fn failed(&self, doing: &'static str, error: &KafkaError) -> Error {
        let fatal = self.producer().client().fatal_error();
        let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
        let fault = fatal
            .as_ref()
            .map_or_else(|| TransactionFault::of(code), |(code, _)| TransactionFault::of(*code));
        let reason = fatal.map_or_else(|| error.to_string(), |(_, reason)| reason);
        Error::Transaction { fault, doing, id: self.settings.id.clone(), reason }
    }
}
