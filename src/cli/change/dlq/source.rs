//! The dead-letter topic and its topic of states.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::args::SourceArgs;
use super::error::DlqError;
use super::place::Place;
use super::state::States;
use crate::config::KafkaConfig;
use crate::kafka::{self, DeadLetterStates, RecordReader, StoredRecord};

/// The dead-letter topic, and its topic of states.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) options: kafka::Options,
    pub(super) topic: String,
    pub(super) state_topic: String,
}

impl Source {
    /// Creates it from the configuration and the command line, without a request to the brokers.
    pub(super) fn new(args: &SourceArgs) -> Result<Self, DlqError> {
        let mut sources = args.config.sources();
        sources
            .overrides
            .extend(args.bootstrap_servers.iter().map(|servers| format!("bootstrap.servers={servers}")));
        let mut config = KafkaConfig::load(&sources).map_err(|error| DlqError::Config(Box::new(error)))?;
        config.options.open_stores()?;
        let topic = args.from.clone().or(config.dead_letter_topic).ok_or(DlqError::NoSource)?;
        Ok(Self { options: config.options, topic, state_topic: args.state_topic.clone() })
    }

    /// Reads the states of its dead letters. Blocks.
    pub(super) fn states(&self, stop: &CancellationToken) -> Result<States, DlqError> {
        let mut states = States::default();
        self.state_topic().read(stop, |key, value| states.take(&self.topic, key, value))?;
        Ok(states)
    }

    /// Creates the topic of the states.
    pub(super) async fn make_state_topic(&self, patience: Duration) -> Result<(), DlqError> {
        Ok(self.state_topic().make(patience).await?)
    }

    /// Reads a whole dead letter. Blocks.
    pub(super) fn record(
        &self,
        reader: &mut RecordReader,
        partition: i32,
        offset: i64,
        stop: &CancellationToken,
    ) -> Result<Option<StoredRecord>, DlqError> {
        Ok(reader.read(&self.topic, partition, offset, stop)?)
    }

    /// Checks the places: an offset alone identifies a dead letter only in a topic with one partition.
    pub(super) fn check_places(&self, places: &[Place], partitions: usize) -> Result<(), DlqError> {
        match places.iter().find(|place| place.partition.is_none()) {
            Some(place) if partitions > 1 => {
                Err(DlqError::NoPartition { place: place.to_string(), topic: self.topic.clone() })
            }
            _ => Ok(()),
        }
    }

    fn state_topic(&self) -> DeadLetterStates {
        DeadLetterStates::new(&self.options, &self.state_topic)
    }
}
