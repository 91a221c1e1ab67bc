//! Configuration of commands that need only Kafka.

use std::time::Duration;

use super::producer;
use crate::config::error::{ConfigError, Problem};
use crate::config::read::Reader;
use crate::config::source::layers;
use crate::config::source::layers::{Layers, Sources};

/// The part of a configuration that is about Kafka.
#[derive(Debug, Clone)]
pub(crate) struct KafkaConfig {
    /// Connection to Kafka, and the producer's properties.
    pub(crate) options: crate::kafka::Options,
    /// `errors.deadletterqueue.topic.name`.
    pub(crate) dead_letter_topic: Option<String>,
}

impl KafkaConfig {
    /// Reads the keys that are about Kafka. A placeholder in another key, such as PostgreSQL's password, need not be
    /// resolvable.
    ///
    /// # Errors
    /// Returns every mistake that was found, together.
    pub(crate) fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let Layers { settings, dialect, mut problems, .. } = layers::collect(sources)?;
        problems.retain(concerns_kafka);
        let mut reader = Reader::new(&settings, dialect);
        reader.problems = problems;
        let connect_timeout = reader.millis("outboxd.connect.timeout.ms", 1, Duration::from_secs(5));
        let options = producer::options(&mut reader, connect_timeout);
        let dead_letter_topic = reader.filled("errors.deadletterqueue.topic.name").map(str::to_owned);
        match ConfigError::of(reader.problems) {
            Some(error) => Err(error),
            None => Ok(Self { options, dead_letter_topic }),
        }
    }
}

fn concerns_kafka(problem: &Problem) -> bool {
    let Problem::Placeholder { said, .. } = problem else { return true };
    ["producer.", "rdkafka.", "outboxd.kafka.", "bootstrap.servers", "errors.deadletterqueue"]
        .iter()
        .any(|part| said.key.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(settings: &[&str]) -> Result<KafkaConfig, ConfigError> {
        let overrides = settings.iter().map(|setting| (*setting).to_owned()).collect();
        KafkaConfig::load(&Sources { overrides, ..Sources::default() })
    }

    #[test]
    fn kafka_is_reached_without_anything_of_postgresql() {
        let config = load(&[
            "bootstrap.servers=localhost:9092",
            "producer.security.protocol=SSL",
            "database.password=${env:NOT_SET_ON_THIS_MACHINE}",
            "errors.deadletterqueue.topic.name=orders.dead",
        ]);
        let config = config.unwrap();
        assert_eq!(config.options.bootstrap_servers, "localhost:9092");
        assert_eq!(config.dead_letter_topic.as_deref(), Some("orders.dead"));
        assert!(config.options.properties.iter().any(|(key, _)| key == "security.protocol"));
    }

    #[test]
    fn mistakes_about_kafka_are_reported() {
        for (settings, told) in [
            (vec![], "bootstrap.servers"),
            (vec!["bootstrap.servers=a:1", "producer.securty.protocol=SSL"], "producer.securty.protocol"),
            (vec!["bootstrap.servers=${env:NOT_SET_ON_THIS_MACHINE}"], "NOT_SET_ON_THIS_MACHINE"),
        ] {
            let error = load(&settings).unwrap_err();
            let problems: Vec<_> = error.problems().map(|problem| crate::error::chain(problem)).collect();
            assert!(problems.iter().any(|problem| problem.contains(told)), "{told}: {problems:?}");
        }
    }
}
