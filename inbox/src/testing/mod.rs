//! Tests of your own handlers under repeated events, other orders of events, and crashes of the process.
//!
//! A [`Harness`] needs PostgreSQL and no Kafka. It handles the events once undisturbed and reads the tables. Then it repeats this
//! from the same start: each event is interrupted at each of its awaits, after it and in its commit, as if the process had ended
//! there; events come a second time, and twice at the same time; the keys alternate in another order. Finally the tables must have
//! the same contents as before. If they differ, a part of the handler's effect is outside of the transaction, or depends on the
//! order of different keys.
//!
//! ```no_run
//! # use outboxd_inbox::postgres::{Connector, Transaction};
//! # use outboxd_inbox::testing::{Harness, HarnessError, event};
//! # use outboxd_inbox::{Delivery, Failure};
//! # async fn handler(_: Transaction, _: Delivery) -> Result<(), Failure> { Ok(()) }
//! # async fn check(connector: Connector) -> Result<(), HarnessError> {
//! let harness = Harness::new(connector)
//!     .reset("TRUNCATE customers")
//!     .observe("SELECT * FROM customers ORDER BY id");
//! harness.check(&[event("customer-1", "event-1", r#"{"amount":3}"#)], handler).await?;
//! # Ok(())
//! # }
//! ```

mod interrupt;
mod judge;
mod plan;
mod run;

pub use judge::HarnessError;

/// Former name of [`HarnessError`].
#[deprecated(note = "renamed to `HarnessError`")]
pub type Mistake = HarnessError;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::consumer::{Delivery, Each, Failure};
use crate::event::{Event, Headers};
use crate::postgres::{Connector, HandlerTransaction, Transaction};
use judge::Start;
use plan::Plan;
use run::Run;

/// Default number of random schedules.
const SCHEDULES: u32 = 20;

/// Test harness of a handler. See the module.
pub struct Harness<T = Transaction> {
    connector: Connector<T>,
    start: Start,
    schedules: u32,
    seed: u64,
}

/// Creates an event with a key, an id and a value, for a test.
#[must_use]
pub fn event(key: &str, id: &str, value: &str) -> Event {
    let mut headers = Headers::default();
    headers.push("id", Some(id.as_bytes().to_vec()));
    Event {
        topic: Arc::from("testing"),
        partition: 0,
        offset: 0,
        key: Some(key.as_bytes().to_vec()),
        value: Some(value.as_bytes().to_vec()),
        headers,
        timestamp_ms: None,
    }
}

impl<T: HandlerTransaction> Harness<T> {
    /// Creates a harness for this database. The inbox's tables are created if they do not exist.
    #[must_use]
    pub fn new(connector: Connector<T>) -> Self {
        Self { connector, start: Start::default(), schedules: SCHEDULES, seed: 0 }
    }

    /// Sets the statements that reset the service's tables to the start of a run.
    #[must_use]
    pub fn reset(mut self, sql: &str) -> Self {
        sql.clone_into(&mut self.start.sql);
        self
    }

    /// Adds a function that resets state outside the database, such as a double of another service.
    #[must_use]
    pub fn reset_by(mut self, reset: impl Fn() + Send + Sync + 'static) -> Self {
        self.start.functions.push(Box::new(reset));
        self
    }

    /// Adds a query for a part of the effect. Its rows must be the same after each run, in the same order: select only columns that
    /// do not depend on time or chance, and sort by one of them.
    #[must_use]
    pub fn observe(mut self, sql: &str) -> Self {
        self.start.queries.push(sql.to_owned());
        self
    }

    /// Adds a function that returns a part of the effect outside the database.
    #[must_use]
    pub fn observe_by(mut self, observe: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.start.observers.push(Box::new(observe));
        self
    }

    /// Sets the number of random schedules, 20 by default. The schedules that interrupt each await come before.
    #[must_use]
    pub fn schedules(mut self, count: u32) -> Self {
        self.schedules = count;
        self
    }

    /// Sets the seed of the random schedules, 0 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Checks the handler with these events.
    ///
    /// # Errors
    ///
    /// Returns the first [`HarnessError`] that is found.
    pub async fn check<F, R>(&self, events: &[Event], handler: F) -> Result<(), HarnessError>
    where
        F: Fn(T, Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.connector.ensure_tables().await?;
        let run = Run::new(self.connector.opener(), &self.start, events, Each::<F, T, R>::new(handler))?;
        let (expected, awaits) = run.in_peace().await?;
        let keys: Vec<_> = events.iter().map(|event| event.key.clone()).collect();
        let most = awaits.iter().copied().max().unwrap_or_default();
        let sweep = (1..=most + 2).map(|at| Plan::interrupting_each(keys.len(), at));
        let chance = (0..self.schedules).map(|n| Plan::by_chance(&keys, &awaits, self.seed ^ u64::from(n)));
        for plan in sweep.chain(chance) {
            let observed = run.follow(&plan).await?;
            if observed != expected {
                return Err(HarnessError::Different { expected, observed, schedule: plan.to_string() });
            }
        }
        Ok(())
    }
}

impl<T> fmt::Debug for Harness<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness")
            .field("schedules", &self.schedules)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
