//! Errors of `outboxd inbox`.

use postgres_protocol::escape::escape_identifier;

use crate::cli::shell::address::AddressError;
use crate::cli::shell::typed::quoted;
use crate::config::ConfigError;
use crate::error::{Diagnose, Diagnosis, Exit};
use crate::postgres;

/// Error of `outboxd inbox`.
#[derive(Debug, thiserror::Error)]
pub(super) enum InboxError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Config(Box<ConfigError>),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error("no PostgreSQL server is given")]
    NoServer,
    #[error("database {database:?} has no table inbox_partition{}", .schema.as_ref().map(|schema| format!(" in schema {schema:?}")).unwrap_or_default())]
    NoTables { database: String, schema: Option<String>, others: Vec<String> },
    #[error(
        "the inbox's tables in schema {schema:?} have version {}, and this outboxd needs {needed}",
        .found.map_or_else(|| "unknown".to_owned(), |found| found.to_string())
    )]
    OldTables { database: String, schema: String, found: Option<i32>, needed: i32 },
    #[error(
        "the inbox's tables in schema {schema:?} have version {found}, and this outboxd supports version {needed}"
    )]
    NewerTables { schema: String, found: i32, needed: i32 },
    #[error("consumer {consumer:?} has no partition in schema {schema:?}")]
    NoConsumer { consumer: String, schema: String, known: Vec<String> },
    #[error("consumer {consumer:?} has no parked event {what}")]
    NotParked { consumer: String, what: String },
    #[error("consumer {consumer:?} does not remember {what}")]
    NotRemembered { consumer: String, what: String },
    #[error("{what} is remembered for {} sources: {}", sources.len(), sources.join(", "))]
    SeveralSources { what: String, sources: Vec<String> },
    #[error("the event at {place} is a dead letter already")]
    IsDead { consumer: String, place: String },
    #[error("the event at {place} has a sequence number, which skip must store")]
    NeedsNumber { place: String, next: i64 },
    #[error("number {number} is not the missing one")]
    WrongNumber { number: i64, next: Option<i64>, waiting: Option<i64> },
    #[error("{count} numbers are too many for one command")]
    TooManyNumbers { count: i64, max: i64 },
    #[error("partition {topic}:{partition} is in use by a transaction{}", shown_pids(.pids))]
    Busy { topic: String, partition: i32, pids: Vec<i32> },
}

fn shown_pids(pids: &[i32]) -> String {
    let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
    if pids.is_empty() { String::new() } else { format!(" of pid {}", pids.join(", ")) }
}

impl Diagnose for InboxError {
    fn diagnosis(&self) -> Diagnosis {
        let usage = |fix: String| Diagnosis::config().with_fix(fix);
        let setup = |fix: String| Diagnosis::definite(Exit::Precondition).with_fix(fix);
        let failed = |fix: String| Diagnosis::definite(Exit::Failed).with_fix(fix);
        match self {
            Self::Address(error) => error.diagnosis(),
            Self::Config(error) => error.diagnosis(),
            Self::Postgres(error) => error.diagnosis(),
            Self::NoServer => usage("--postgres postgresql://user@host:5432/database".to_owned()),
            Self::NoTables { others, .. } if others.is_empty() => setup(
                "run sql/inbox.sql in the schema of the service, or call Connector::create_tables; or give the database of the service"
                    .to_owned(),
            ),
            Self::NoTables { others, .. } => setup(format!("--schema {}", others.join(", or --schema "))),
            Self::OldTables { database, schema, .. } => {
                let path = quoted(&format!("SET search_path = {}", escape_identifier(schema)));
                setup(format!(
                    "stop the consumers, then: psql -d {} -c {path} -f sql/inbox.sql; or start them with this version of outboxd-inbox",
                    quoted(database)
                ))
            }
            Self::NewerTables { .. } => setup("use the outboxd of the same release as the service's outboxd-inbox".to_owned()),
            Self::NoConsumer { known, .. } if known.is_empty() => failed("no consumer has begun in this schema".to_owned()),
            Self::NoConsumer { known, .. } => failed(format!("--consumer {}", known.join(", or --consumer "))),
            Self::NotParked { consumer, .. } => {
                failed(format!("outboxd inbox ls --consumer {consumer} lists what is parked"))
            }
            Self::NotRemembered { .. } => failed("it is applied when it comes again; nothing needs to change".to_owned()),
            Self::SeveralSources { sources, .. } => usage(format!("--source {}", sources.join(", or --source "))),
            Self::IsDead { consumer, place } => failed(format!(
                "outboxd inbox release --consumer {} --at {place} --yes lets its key continue; to send the event again before: outboxd dlq replay \
                 --bootstrap-servers SERVERS --from TOPIC --execute, with the consumer's topic of dead letters",
                quoted(consumer)
            )),
            Self::NeedsNumber { next, .. } => usage(format!("--number {next}, the next number of its key")),
            Self::WrongNumber { next: Some(next), .. } => usage(format!("--number {next}, the next number of the key")),
            Self::WrongNumber { waiting: Some(waiting), .. } => {
                usage(format!("--number N, less than {waiting}, which is the first number that waits"))
            }
            Self::WrongNumber { .. } => usage("no event of the key waits for a number".to_owned()),
            Self::TooManyNumbers { max, .. } => usage(format!("skip at most {max}: --through N")),
            Self::Busy { pids, .. } => {
                let end: Vec<String> =
                    pids.iter().map(|pid| format!("; or SELECT pg_terminate_backend({pid});")).collect();
                failed(format!("run this again when the handler has returned{}", end.concat()))
            }
        }
    }
}
