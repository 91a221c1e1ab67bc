use std::io;
use std::path::PathBuf;

use super::shape::Shape;
use crate::cli::address::AddressError;
use crate::cli::assemble::AssembleError;
use crate::cli::steps::StepError;
use crate::config::ConfigError;
use crate::connect::option::closest;
use crate::error::{Class, Diagnose, Exit};
use crate::postgres::TableFacts;
use crate::{kafka, postgres, relay};

/// Why nothing, or not everything, was made.
#[derive(Debug, thiserror::Error)]
pub(super) enum InitError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Config(Box<ConfigError>),
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
    #[error(transparent)]
    Relay(Box<relay::Error>),
    #[error(transparent)]
    Step(#[from] StepError),
    #[error("no PostgreSQL server is given")]
    NoServer,
    #[error("there is no preset {0:?}")]
    NoPreset(String),
    #[error("database {database:?} has no table {table:?}")]
    NoTable { table: String, database: String },
    #[error("database {0:?} has no table that looks like an outbox")]
    NoOutbox(String),
    #[error("table {table} does not look like an outbox{}", preset.as_ref().map(|name| format!(" of preset {name}")).unwrap_or_default())]
    NoShape { table: String, preset: Option<String> },
    #[error("{} tables look like an outbox: {}", tables.len(), tables.join(", "))]
    Several { tables: Vec<String> },
    #[error("{} sends change events of tables; init is for an outbox", path.display())]
    ChangeEvents { path: PathBuf },
    #[error("the brokers do not make topic {topic:?}: {reason}")]
    Topic { topic: String, reason: String },
    #[error("{} cannot be written", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl InitError {
    /// With what lets this role read the table, when the server has refused that.
    pub(super) fn or_grant(self, table: &TableFacts, role: &str) -> Self {
        match self {
            Self::Postgres(error) => Self::Postgres(error.or_grant("SELECT", &table.quoted(), role)),
            error => error,
        }
    }

    fn inner(&self) -> Option<&dyn Diagnose> {
        match self {
            Self::Address(error) => Some(error),
            Self::Config(error) => Some(error.as_ref()),
            Self::Assemble(error) => Some(error),
            Self::Postgres(error) => Some(error),
            Self::Kafka(error) => Some(error),
            Self::Relay(error) => Some(error.as_ref()),
            Self::Step(error) => Some(error),
            _ => None,
        }
    }
}

impl Diagnose for InitError {
    fn class(&self) -> Class {
        match self {
            Self::NoServer | Self::NoPreset(_) | Self::Several { .. } | Self::ChangeEvents { .. } => {
                Class::Config
            }
            _ => self.inner().map_or(Class::Definite, Diagnose::class),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::NoServer | Self::NoPreset(_) | Self::Several { .. } | Self::ChangeEvents { .. } => {
                Exit::Usage
            }
            Self::NoTable { .. } | Self::NoOutbox(_) | Self::NoShape { .. } | Self::Topic { .. } => {
                Exit::Precondition
            }
            _ => self.inner().map_or(Exit::Failed, Diagnose::exit),
        }
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::NoServer => Some(
                "--postgres postgresql://user:password@host:5432/database, or -c FILE with database.hostname and the like"
                    .to_owned(),
            ),
            Self::NoPreset(name) => {
                let names = Shape::names();
                let meant = closest(name, names.iter().map(|&known| known.to_owned()));
                let meant = meant.map(|meant| format!("did you mean {meant}? ")).unwrap_or_default();
                Some(format!("{meant}there are {}", names.join(", ")))
            }
            Self::NoTable { .. } => Some("--table takes TABLE or SCHEMA.TABLE, in the table's own case".to_owned()),
            Self::NoOutbox(_) => {
                Some("--create-table makes public.outbox; --table TABLE names one that there is".to_owned())
            }
            Self::NoShape { .. } => Some(
                "it needs columns for an id, a topic and a payload, best with a key: sql/outbox.sql shows one. Columns of other \
                 names can be said: docs/configuration.md, table.field.event.*"
                    .to_owned(),
            ),
            Self::Several { tables } => {
                let named: Vec<_> = tables.iter().map(|table| format!("--table {table}")).collect();
                Some(format!("say which: {}", named.join(", or ")))
            }
            Self::ChangeEvents { .. } => Some("--into another file".to_owned()),
            Self::Topic { topic, .. } => Some(format!(
                "--replication-factor N: not more than there are brokers; --partitions N: not more than they allow. Or make the topic \
                 yourself: kafka-topics.sh --create --topic {topic}"
            )),
            Self::Write { .. } => Some("--into a file in a folder that can be written".to_owned()),
            _ => self.inner().and_then(Diagnose::cure),
        }
    }
}
