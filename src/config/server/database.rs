//! Configuration of commands that need only PostgreSQL.

use std::time::Duration;

use super::postgres;
use crate::config::error::{ConfigError, Problem};
use crate::config::features::router;
use crate::config::read::Reader;
use crate::config::source::layers;
use crate::config::source::layers::{Layers, Sources};

/// The part of a configuration that is about PostgreSQL.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseConfig {
    /// Connection to PostgreSQL, slot, publication and tables.
    pub(crate) options: crate::postgres::Options,
}

impl DatabaseConfig {
    /// Reads the keys that are about PostgreSQL. A placeholder in another key, such as Kafka's password, need not be
    /// resolvable.
    ///
    /// # Errors
    /// Returns every mistake that was found, together.
    pub(crate) fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let Layers { settings, dialect, mut problems, .. } = layers::collect(sources)?;
        problems.retain(concerns_postgres);
        let mut reader = Reader::new(&settings, dialect);
        let router = router::find(&mut reader).router;
        reader.problems = problems;
        let connect_timeout = reader.millis("outboxd.connect.timeout.ms", 1, Duration::from_secs(5));
        let options = postgres::options(&mut reader, router.as_deref(), connect_timeout);
        match ConfigError::of(reader.problems) {
            Some(error) => Err(error),
            None => Ok(Self { options }),
        }
    }
}

fn concerns_postgres(problem: &Problem) -> bool {
    let Problem::Placeholder { said, .. } = problem else { return true };
    ["database.", "slot.", "publication."].iter().any(|part| said.key.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(settings: &[&str]) -> Result<DatabaseConfig, ConfigError> {
        let overrides = settings.iter().map(|setting| (*setting).to_owned()).collect();
        DatabaseConfig::load(&Sources { overrides, ..Sources::default() })
    }

    const LOGIN: [&str; 3] = ["database.hostname=h", "database.user=u", "database.dbname=d"];

    #[test]
    fn postgresql_is_reached_without_anything_of_kafka() {
        let kafka = ["producer.ssl.key.password=${env:NOT_SET_ON_THIS_MACHINE}", "slot.name=orders"];
        let config = load(&[&LOGIN[..], &kafka].concat()).unwrap();
        assert_eq!((config.options.server.host.as_str(), config.options.slot.name.as_str()), ("h", "orders"));
    }

    #[test]
    fn mistakes_about_postgresql_are_reported() {
        for (settings, told) in [
            (vec!["database.user=u", "database.dbname=d"], "database.hostname"),
            ([&LOGIN[..], &["database.port=x"]].concat(), "database.port"),
            (
                [&LOGIN[..], &["database.password=${env:NOT_SET_ON_THIS_MACHINE}"]].concat(),
                "NOT_SET_ON_THIS_MACHINE",
            ),
            (
                [&LOGIN[..], &["database.include.list=d", "database.exclude.list=e"]].concat(),
                "database.include.list is set too",
            ),
        ] {
            let error = load(&settings).unwrap_err();
            let problems: Vec<_> = error.problems().map(|problem| crate::error::chain(problem)).collect();
            assert!(problems.iter().any(|problem| problem.contains(told)), "{told}: {problems:?}");
        }
    }
}
