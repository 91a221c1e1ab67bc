//! Errors of `outboxd init`.

use std::io;
use std::path::PathBuf;

use super::shape::Shape;
use crate::cli::run::assemble::AssembleError;
use crate::cli::shell::address::AddressError;
use crate::cli::shell::steps::StepError;
use crate::config::ConfigError;
use crate::connect::option::closest;
use crate::error::{Diagnose, Diagnosis, Exit};
use crate::kafka::tool_lines;
use crate::postgres::TableFacts;
use crate::{kafka, postgres, relay};

/// Reasons why objects were not created, or not all of them.
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
    #[error("database {database:?} has no table that looks like an outbox")]
    NoOutbox { database: String, tables: Vec<String> },
    #[error("table {table} does not look like an outbox{}", preset.as_ref().map(|name| format!(" of preset {name}")).unwrap_or_default())]
    NoShape { table: String, preset: Option<String> },
    #[error("{} tables look like an outbox: {}", tables.len(), tables.join(", "))]
    Several { tables: Vec<String> },
    #[error("{} sends change events of tables; {option} is for an outbox", path.display())]
    ChangeEvents { path: PathBuf, option: &'static str },
    #[error("{} sends the events of an outbox, not of tables", path.display())]
    Outbox { path: PathBuf },
    #[error("{} does not capture {}", path.display(), tables.join(", "))]
    NotCaptured { path: PathBuf, tables: Vec<String> },
    #[error("--tables names no table")]
    NoneNamed,
    #[error(
        "--tables: {entry:?} is no table of database {database:?}, and as a regular expression it matches none"
    )]
    NoTables { entry: String, database: String, closest: Option<String> },
    #[error("--tables: several tables are called {entry:?}: {}", tables.join(", "))]
    Ambiguous { entry: String, tables: Vec<String> },
    #[error("--tables: {0}")]
    Pattern(String),
    #[error("the brokers do not make topic {topic:?}: {reason}")]
    Topic { topic: String, reason: String },
    #[error("{} cannot be written", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl InitError {
    /// Returns the error with the statement that grants SELECT to this role, if the server has refused to read the table.
    pub(super) fn or_grant(self, tables: &[TableFacts], role: &str) -> Self {
        match self {
            Self::Postgres(error) => {
                let quoted: Vec<_> = tables.iter().map(TableFacts::quoted).collect();
                Self::Postgres(error.or_grant("SELECT", &quoted.join(", "), role))
            }
            error => error,
        }
    }
}

impl Diagnose for InitError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Address(error) => error.diagnosis(),
            Self::Config(error) => error.diagnosis(),
            Self::Assemble(error) => error.diagnosis(),
            Self::Postgres(error) => error.diagnosis(),
            Self::Kafka(error) => error.diagnosis(),
            Self::Relay(error) => error.diagnosis(),
            Self::Step(error) => error.diagnosis(),
            Self::NoServer => Diagnosis::config().with_fix(
                "--postgres postgresql://user:password@host:5432/database, or -c FILE with database.hostname and the like",
            ),
            Self::NoPreset(name) => {
                let names = Shape::names();
                let meant = closest(name, names.iter().map(|&known| known.to_owned()));
                Diagnosis::config().with_fix(format!("{}there are {}", did_you_mean(meant.as_deref()), names.join(", ")))
            }
            Self::NoTable { .. } => Diagnosis::definite(Exit::Precondition)
                .with_fix("--table must be TABLE or SCHEMA.TABLE, in the table's own case"),
            Self::NoOutbox { tables, .. } => {
                let these = if tables.is_empty() { "SCHEMA.TABLE,…".to_owned() } else { tables.join(",") };
                Diagnosis::definite(Exit::Precondition).with_fix(format!(
                    "--create-table makes public.outbox; --table TABLE names one that there is. Without an outbox, --tables {these} \
                     sends each change of these tables as an event"
                ))
            }
            Self::NoShape { .. } => Diagnosis::definite(Exit::Precondition).with_fix(
                "it needs columns for an id, a topic and a payload, and should have a key, as in sql/outbox.sql. \
                 For columns with other names: docs/configuration.md, table.field.event.*",
            ),
            Self::Several { tables } => {
                let named: Vec<_> = tables.iter().map(|table| format!("--table {table}")).collect();
                Diagnosis::config().with_fix(format!("say which: {}", named.join(", or ")))
            }
            Self::ChangeEvents { .. } | Self::Outbox { .. } => {
                Diagnosis::config().with_fix("--into another file")
            }
            Self::NotCaptured { path, .. } => Diagnosis::config().with_fix(format!(
                "init leaves {} as it is: name them in its table.include.list, and run this again; or --into another file",
                path.display()
            )),
            Self::NoneNamed => Diagnosis::config()
                .with_fix("--tables takes names with commas between: --tables public.orders,public.lines"),
            Self::NoTables { closest, .. } => Diagnosis::definite(Exit::Precondition).with_fix(format!(
                "{}--tables takes TABLE, SCHEMA.TABLE, in the table's own case, or a regular expression such as 'public\\..*'",
                did_you_mean(closest.as_deref())
            )),
            Self::Ambiguous { .. } => Diagnosis::config().with_fix("name it with its schema"),
            Self::Pattern(_) => Diagnosis::config()
                .with_fix("--tables 'public\\..*' is one that matches all tables of a schema"),
            Self::Topic { topic, .. } => Diagnosis::definite(Exit::Precondition).with_fix(format!(
                "--replication-factor N: not more than there are brokers; --partitions N: not more than they allow. Or make the topic \
                 yourself: {}",
                tool_lines::topics(&format!("--create --topic {topic}"))
            )),
            Self::Write { .. } => {
                Diagnosis::definite(Exit::Failed).with_fix("--into a file in a folder that can be written")
            }
        }
    }
}

fn did_you_mean(name: Option<&str>) -> String {
    name.map(|name| format!("did you mean {name}? ")).unwrap_or_default()
}
