//! What a command reads that needs Kafka alone.

use std::time::Duration;

use super::error::{ConfigError, Problem};
use super::layers::{self, Layers, Sources};
use super::producer;
use super::read::Reader;

/// The part of a configuration that is about Kafka.
#[derive(Debug, Clone)]
pub(crate) struct KafkaConfig {
    /// How Kafka is reached.
    pub(crate) options: crate::kafka::Options,
    /// `errors.deadletterqueue.topic.name`.
    pub(crate) dead_letter_topic: Option<String>,
}

impl KafkaConfig {
    /// Reads the keys that are about Kafka. Mistakes in others do not matter: a password of PostgreSQL need not be there.
    ///
    /// # Errors
    /// Every mistake that was found, together.
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
    ["producer.", "rdkafka.", "bootstrap.servers", "errors.deadletterqueue"]
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
    fn mistakes_about_kafka_are_told() {
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
