//! Repeated queries for a state.

use std::time::Duration;

use super::args::InstanceArgs;
use super::direct::{Direct, SlotQuery};
use super::error::StatusError;
use crate::cli::print_message;
use crate::config::DatabaseConfig;
use crate::error::chain;
use crate::http::{AskError, Instance};
use crate::telemetry::Overview;

/// Timeout of a running outboxd.
const PATIENCE: Duration = Duration::from_secs(3);

/// State that was found.
#[derive(Debug)]
pub(in crate::cli) enum Seen {
    /// State from a running outboxd.
    Process(Instance, Box<Overview>),
    /// State of the slot from PostgreSQL.
    Database(Box<Direct>),
}

/// Repeated query of the same source.
#[derive(Debug)]
pub(in crate::cli) enum StateQuery {
    /// A running outboxd; where it does not answer and a configuration is named, PostgreSQL.
    Process(Instance, Option<Box<SlotQuery>>),
    Database(Box<SlotQuery>),
}

impl StateQuery {
    /// Creates it without a request.
    pub(super) fn new(whom: &InstanceArgs) -> Result<Self, StatusError> {
        let sources = whom.config.sources();
        let slot = || {
            let config =
                DatabaseConfig::load(&sources).map_err(|error| StatusError::Config(Box::new(error)))?;
            Ok(Box::new(SlotQuery::new(config.options)))
        };
        match &whom.http {
            Some(instance) if whom.config.is_empty() => Ok(Self::Process(instance.clone(), None)),
            Some(instance) => Ok(Self::Process(instance.clone(), Some(slot()?))),
            None if sources.is_empty() => Err(StatusError::NoInstance),
            None => slot().map(Self::Database),
        }
    }

    /// Requests the present state.
    pub(super) async fn once(&mut self) -> Result<Seen, StatusError> {
        match self {
            Self::Process(instance, slot) => match (instance.overview(PATIENCE).await, slot) {
                (Ok(overview), _) => Ok(Seen::Process(instance.clone(), Box::new(overview))),
                (Err(error @ AskError::NoAnswer(..)), Some(slot)) => {
                    print_message(&format!("{}; the slot in PostgreSQL:", chain(&error)));
                    slot.once().await.map(Seen::of_slot)
                }
                (Err(error), _) => Err(error.into()),
            },
            Self::Database(look) => look.once().await.map(Seen::of_slot),
        }
    }
}

impl Seen {
    fn of_slot(direct: Direct) -> Self {
        Self::Database(Box::new(direct))
    }

    /// Returns one JSON object; `from` names its source.
    pub(super) fn json(&self) -> String {
        let (from, seen) = match self {
            Self::Process(instance, overview) => (instance.to_string(), serde_json::to_value(overview)),
            Self::Database(direct) => ("postgres".to_owned(), serde_json::to_value(direct)),
        };
        let mut seen = seen.unwrap_or_default();
        if let Some(fields) = seen.as_object_mut() {
            fields.shift_insert(0, "from".to_owned(), from.into());
        }
        seen.to_string()
    }
}
