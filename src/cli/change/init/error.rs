use std::io;
use std::path::PathBuf;

use super::shape::Shape;
use crate::cli::run::assemble::AssembleError;
use crate::cli::shell::address::AddressError;
use crate::cli::shell::steps::StepError;
use crate::config::ConfigError;
use crate::connect::option::closest;
use crate::error::{Class, Diagnose, Exit};
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
    /// Returns the error with the statement that lets this role read the table, if the server has refused the reading.
    pub(super) fn or_grant(self, tables: &[TableFacts], role: &str) -> Self {
        match self {
            Self::Postgres(error) => {
                let quoted: Vec<_> = tables.iter().map(TableFacts::quoted).collect();
                Self::Postgres(error.or_grant("SELECT", &quoted.join(", "), role))
            }
            error => error,
        }
    }

    /// Returns whether another command line is the fix.
    const fn is_typed_wrong(&self) -> bool {
        matches!(
            self,
            Self::NoServer
                | Self::NoPreset(_)
                | Self::Several { .. }
                | Self::ChangeEvents { .. }
                | Self::Outbox { .. }
                | Self::NotCaptured { .. }
                | Self::NoneNamed
                | Self::Ambiguous { .. }
                | Self::Pattern(_)
        )
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
            _ if self.is_typed_wrong() => Class::Config,
            _ => self.inner().map_or(Class::Definite, Diagnose::class),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            _ if self.is_typed_wrong() => Exit::Usage,
            Self::NoTable { .. }
            | Self::NoTables { .. }
            | Self::NoOutbox { .. }
            | Self::NoShape { .. }
            | Self::Topic { .. } => Exit::Precondition,
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
            Self::NoTable { .. } => Some("--table must be TABLE or SCHEMA.TABLE, in the table's own case".to_owned()),
            Self::NoOutbox { tables, .. } => {
                let these = if tables.is_empty() { "SCHEMA.TABLE,…".to_owned() } else { tables.join(",") };
                Some(format!(
                    "--create-table makes public.outbox; --table TABLE names one that there is. Without an outbox, --tables {these} \
                     sends each change of these tables as an event"
                ))
            }
            Self::NoShape { .. } => Some(
                "it needs columns for an id, a topic and a payload, and should have a key, as in sql/outbox.sql. \
                 For columns with other names: docs/configuration.md, table.field.event.*"
                    .to_owned(),
            ),
            Self::Several { tables } => {
                let named: Vec<_> = tables.iter().map(|table| format!("--table {table}")).collect();
                Some(format!("say which: {}", named.join(", or ")))
            }
            Self::ChangeEvents { .. } | Self::Outbox { .. } => Some("--into another file".to_owned()),
            Self::NotCaptured { path, .. } => Some(format!(
                "init leaves {} as it is: name them in its table.include.list, and run this again; or --into another file",
                path.display()
            )),
            Self::NoneNamed => Some("--tables takes names with commas between: --tables public.orders,public.lines".to_owned()),
            Self::NoTables { closest, .. } => {
                let meant = closest.as_ref().map(|name| format!("did you mean {name}? ")).unwrap_or_default();
                Some(format!("{meant}--tables takes TABLE, SCHEMA.TABLE, in the table's own case, or a regular expression such as 'public\\..*'"))
            }
            Self::Ambiguous { .. } => Some("name it with its schema".to_owned()),
            Self::Pattern(_) => Some("--tables 'public\\..*' is one that matches all tables of a schema".to_owned()),
            Self::Topic { topic, .. } => Some(format!(
                "--replication-factor N: not more than there are brokers; --partitions N: not more than they allow. Or make the topic \
                 yourself: {}",
                tool_lines::topics(&format!("--create --topic {topic}"))
            )),
            Self::Write { .. } => Some("--into a file in a folder that can be written".to_owned()),
            _ => self.inner().and_then(Diagnose::cure),
        }
    }
}
