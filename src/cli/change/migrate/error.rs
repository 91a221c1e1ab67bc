//! Errors of `outboxd migrate`.

use crate::cli::run::assemble::AssembleError;
use crate::cli::shell::marks::{STATES, plain};
use crate::cli::shell::steps::StepError;
use crate::cli::shell::typed::quoted;
use crate::error::{Diagnose, Diagnosis, Exit};
use crate::postgres::Sql;
use crate::relay::StoredOffset;
use crate::{postgres, relay};

/// Reason why a migration does not continue.
#[derive(Debug, thiserror::Error)]
pub(super) enum MigrateError {
    #[error(transparent)]
    Assemble(#[from] Box<AssembleError>),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(transparent)]
    Relay(#[from] Box<relay::Error>),
    #[error(transparent)]
    Step(#[from] StepError),
    #[error("PostgreSQL {major} has no row filters for publications: a migration needs 15 or later")]
    TooOld { major: i32 },
    #[error("wal_level is {0:?}, logical decoding needs \"logical\"")]
    WalLevel(String),
    #[error("the configuration captures {} tables, and a migration is about one: {}", .0.len(), .0.join(", "))]
    NotOneTable(Vec<String>),
    #[error("no column of table {table} shows which rows the poller has sent")]
    NoMark { table: String },
    #[error("several columns of table {table} may be the mark of a row that the poller has sent: {}", columns.join(", "))]
    ManyMarks {
        table: String,
        columns: Vec<String>,
        /// Column in the condition of a partial index.
        read: Option<String>,
    },
    #[error(
        "a program still marks rows of table {table} that are outboxd's: {rows} since new rows have the mark {mark:?}; it sends them as \
         well, and reads by another column{}",
        or_others(others)
    )]
    StillMarked { table: String, rows: i64, mark: String, others: Vec<String> },
    #[error("no program has marked a row of table {table} that is outboxd's: the poller does not send them")]
    NotMarked { table: String },
    #[error("table {table} has no column {column:?}")]
    NoColumn { table: String, column: String },
    #[error("column {column:?} of table {table} is of a type that a publication's row filter cannot compare")]
    MarkType { table: String, column: String },
    #[error(
        "--mark {column}: column {column:?} of table {table} holds values, and the one of a sent row is not given"
    )]
    NoSentValue { table: String, column: String },
    #[error("publication {0:?} is there already, and is not that of a migration")]
    ForeignPublication(String),
    #[error("replication slot {0:?} is there already, older than the publication that a migration makes")]
    OlderSlot(String),
    #[error("replication slot {slot:?} is gone or lost{}", because.as_deref().map(|because| format!(": {because}")).unwrap_or_default())]
    SlotLost { slot: String, because: Option<String> },
    /// The slot of the rows that the poller leaves to outboxd.
    #[error("replication slot {slot:?} is gone or lost{}", because.as_deref().map(|because| format!(": {because}")).unwrap_or_default())]
    OwnSlotLost { slot: String, because: Option<String> },
    #[error("no migration of table {0} has begun")]
    NotBegun(String),
    #[error("the migration of table {table} is not so far: {why}")]
    NotSoFar { table: String, why: &'static str },
    #[error("the migration of table {table} is past that: {why}")]
    Past { table: String, why: &'static str },
    #[error("replication slot {slot:?} is read by pid {pid}")]
    Running { slot: String, pid: i32 },
    #[error(
        "no client reads replication slot {0:?}: outboxd's rows would not be sent before the poller's next rows"
    )]
    NotRunning(String),
    #[error(
        "{rows} of table {table} wait for the poller: some insert does not come by the trigger, or outboxd's trigger is switched off"
    )]
    Unsent { table: String, rows: String },
    #[error("a session looks for rows by {mark:?}: pid {pid} ({application})")]
    Polled { mark: String, pid: i32, application: String },
    #[error("table {table} was read {scans} times within {seconds} s: a poller may still run")]
    Scanned { table: String, scans: i64, seconds: u64 },
    #[error("there is no replication slot {slot:?}")]
    NoSuchSlot { slot: String, others: Vec<String> },
    #[error("replication slot {0:?} is not one of pgoutput in this database")]
    OtherSlot(String),
    #[error("replication slot {0:?} is that of outboxd's configuration")]
    SameSlot(String),
    #[error("replication slot {slot:?} is read by pid {pid}, which is not outboxd's to stop")]
    ReadByOther { slot: String, pid: i32 },
    #[error("there is no replication slot {0:?}: nothing was taken over")]
    NotCopied(String),
    #[error("the taking over is past that: {slot:?} stands at another place than {from:?}")]
    Elsewhere { slot: String, from: String },
    #[error("publication {publication:?} does not publish the inserts of table {table}")]
    NotPublished { publication: String, table: String, others: Vec<String> },
    #[error("{0:?} is not the address of a connector: http://HOST:8083/connectors/NAME")]
    NoConnectorAddress(String),
    #[error("no answer from {connector}")]
    NoAnswer {
        connector: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{connector} was refused (HTTP {status})")]
    ConnectRefused { connector: String, status: u16 },
    #[error("there is no connector at {0}")]
    NoConnector(String),
    #[error("connector {0} is not stopped")]
    StillRuns(String),
    #[error("connector {connector} did not stop within {seconds} s")]
    NotStopped { connector: String, seconds: u64 },
    #[error(
        "the configuration does not name the topic of Debezium's stored offset: events that it has sent since it moved the slot would repeat"
    )]
    NoOffsets,
    #[error(
        "no offset of the connector is in {}, under the key {}: what it has sent since it moved the slot would come again", .0.store, .0.key
    )]
    NoStoredOffset(StoredOffset),
    #[error("outboxd has not ended cleanly: {other} would send again what outboxd sent last")]
    NotEnded {
        other: &'static str,
        /// Command for a user who accepts that events are sent again.
        anyway: String,
    },
    #[error("outboxd did not catch up within {seconds} s: inserts continued, nothing was changed")]
    Hold { seconds: u64 },
}

fn or_others(others: &[String]) -> String {
    if others.is_empty() { String::new() } else { format!(", such as {}", others.join(" or ")) }
}

impl From<AssembleError> for MigrateError {
    fn from(error: AssembleError) -> Self {
        Self::Assemble(Box::new(error))
    }
}

impl From<relay::Error> for MigrateError {
    fn from(error: relay::Error) -> Self {
        Self::Relay(Box::new(error))
    }
}

impl MigrateError {
    /// Returns the error of a missing slot, with the names of the existing slots if the server returns them.
    pub(super) async fn no_such_slot(sql: &Sql, slot: &str) -> Self {
        let others = sql.slot_names().await.unwrap_or_default();
        Self::NoSuchSlot { slot: slot.to_owned(), others }
    }
}

impl Diagnose for MigrateError {
    fn diagnosis(&self) -> Diagnosis {
        let unprepared = Diagnosis::definite(Exit::Precondition);
        match self {
            Self::Assemble(error) => error.diagnosis(),
            Self::Postgres(error) => error.diagnosis(),
            Self::Relay(error) => error.diagnosis(),
            Self::Step(error) => error.diagnosis(),
            Self::TooOld { .. } => unprepared.with_fix(
                "upgrade the server, or stop the poller, wait until it has nothing to send, and start outboxd with \
                 snapshot.mode=no_data before the application writes again",
            ),
            Self::WalLevel(_) => unprepared.with_fix(
                "as a superuser: ALTER SYSTEM SET wal_level = 'logical';\nthen restart the server (on RDS: set the parameter \
                 rds.logical_replication to 1)",
            ),
            Self::NotOneTable(_) => Diagnosis::config()
                .with_fix("name the one in the configuration: table.include.list=public.outbox"),
            Self::NoMark { .. } => Diagnosis::config().with_fix(
                "name it: --mark COLUMN; for a column such as status also the value: --mark status=PUBLISHED. A poller that deletes \
                 what it has sent has no mark: see docs/migrate/from-a-poller.md",
            ),
            Self::ManyMarks { columns, read, .. } => {
                let likely = read.as_ref().or_else(|| columns.first());
                let why = if read.is_some() {
                    ", the column of a partial index"
                } else {
                    ", or whichever is in the condition of its SELECT"
                };
                Diagnosis::config().with_fix(format!(
                    "name it: --mark {}{why}. With another one both would send every event",
                    mark_argument(likely)
                ))
            }
            Self::StillMarked { others, .. } => unprepared.with_fix(format!(
                "stop outboxd, if it runs; outboxd migrate rollback -c FILE --poller-sends-all; then begin again with \
                 --mark {}. If several pollers mark the same rows, and the mark is right: run this again",
                mark_argument(others.first())
            )),
            Self::NotMarked { .. } => {
                unprepared.with_fix("outboxd migrate rollback -c FILE lets outboxd send its rows first")
            }
            Self::NoColumn { .. } => Diagnosis::config().with_fix("name it: --mark COLUMN"),
            Self::MarkType { .. } => Diagnosis::config()
                .with_fix("row filters compare PostgreSQL's own types only: see docs/migrate/from-a-poller.md"),
            Self::NoSentValue { column, .. } => Diagnosis::config().with_fix(format!(
                "--mark {column}=PUBLISHED, or whatever the poller writes when it has sent a row"
            )),
            Self::ForeignPublication(name) => unprepared.with_fix(format!(
                "give publication.name and slot.name other names, or, if they are unused: DROP PUBLICATION \"{name}\"; and \
                 outboxd slot drop -c FILE"
            )),
            Self::OlderSlot(_) => {
                unprepared.with_fix("give slot.name another name, or, if it is unused: outboxd slot drop -c FILE")
            }
            Self::SlotLost { .. } => Diagnosis::definite(Exit::SlotLost).with_fix(
                "rows that are outboxd's may be missing: outboxd verify -c FILE names them; \
                 outboxd run -c FILE -X slot.recovery=snapshot sends all rows of the table",
            ),
            Self::OwnSlotLost { because, .. } => {
                let drop = if because.is_some() { "outboxd slot drop -c FILE; " } else { "" };
                Diagnosis::definite(Exit::SlotLost).with_fix(format!(
                    "rows that are outboxd's may be missing. Create the slot again: {drop}outboxd slot create -c FILE; continue: \
                     outboxd migrate start -c FILE; then send all rows of the table once, also those of the poller: \
                     outboxd run -c FILE -X snapshot.mode=always"
                ))
            }
            Self::NoSuchSlot { others, .. } if others.is_empty() => {
                unprepared.with_fix("the server has none at all: is it the right server?")
            }
            Self::NoSuchSlot { others, .. } => unprepared.with_fix(format!(
                "name an existing one: {}. If outboxd migrate finish has dropped it, nothing is left to do",
                others.join(", ")
            )),
            Self::OtherSlot(slot) => unprepared.with_fix(format!(
                "connect to its database; of another plugin, a copy can be one of pgoutput: SELECT \
                 pg_copy_logical_replication_slot('{slot}', '{slot}_pgoutput', false, 'pgoutput'); then name the copy: \
                 --from-slot {slot}_pgoutput"
            )),
            Self::NoConnectorAddress(_) => Diagnosis::config(),
            Self::NoAnswer { .. } => unprepared.with_fix(
                "is that Kafka Connect, and does it run? curl -s http://HOST:8083/connectors lists its connectors. While it rebalances it \
                 is late: run this again",
            ),
            Self::ConnectRefused { .. } | Self::NoConnector(_) => unprepared.with_fix(
                "curl -s http://HOST:8083/connectors lists them; HTTP 409 means that Connect rebalances: run this again",
            ),
            Self::StillRuns(_) => {
                unprepared.with_fix("outboxd migrate start -c FILE --from-connector URL stops it")
            }
            Self::NotStopped { .. } => unprepared.with_fix("look at it: curl -s URL/status; then run this again"),
            Self::NoOffsets => unprepared.with_fix(
                "-X offset.storage.topic=connect-offsets, or whatever offset.storage.topic is in the Connect worker's configuration; \
                 `name` must be the connector's",
            ),
            Self::NoStoredOffset(_) => unprepared.with_fix(
                "-X offset.storage.topic=…, as it is in the Connect worker's configuration; `name` must be the connector's, and \
                 topic.prefix too. A connector that has sent nothing yet has none: let it send an event first",
            ),
            Self::NotEnded { anyway, .. } => unprepared.with_fix(format!(
                "start outboxd once more, wait until it has caught up (outboxd lag -c FILE), and stop it with SIGTERM; then run this \
                 again. If events may come twice: {anyway}"
            )),
            Self::SameSlot(_) => Diagnosis::config().with_fix("give slot.name a name of its own"),
            Self::ReadByOther { .. } => {
                unprepared.with_fix("stop the program that reads it, then run this again")
            }
            Self::NotCopied(_) => unprepared.with_fix("outboxd migrate start -c FILE --from-slot SLOT"),
            Self::Elsewhere { .. } => unprepared.with_fix(
                "if outboxd has gone on from it, all is well: outboxd migrate status. If it was made for something else, give slot.name \
                 another name: rows between the two would not be sent",
            ),
            Self::NotPublished { others, .. } => unprepared.with_fix(format!(
                "it must be the one that the other program reads by, or as old: publication.name={}",
                if others.is_empty() { "NAME".to_owned() } else { others.join(" or ") }
            )),
            Self::NotBegun(_) => unprepared.with_fix("outboxd migrate start -c FILE"),
            Self::NotSoFar { .. } => unprepared.with_fix("outboxd migrate start -c FILE continues it"),
            Self::Past { .. } => unprepared.with_fix("outboxd migrate status -c FILE shows the next step"),
            Self::Running { .. } => unprepared.with_fix("stop outboxd with SIGTERM, then run this again"),
            Self::NotRunning(_) => unprepared.with_fix("start outboxd, then run this again"),
            Self::Unsent { .. } => unprepared.with_fix(
                "let the poller send them; then outboxd migrate status -c FILE shows whether more come",
            ),
            Self::Polled { .. } | Self::Scanned { .. } => unprepared.with_fix(
                "stop the poller, then run this again. If it was no poller that has read the table: --poller-is-stopped",
            ),
            Self::Hold { .. } => Diagnosis::transient(Exit::Failed).with_fix(
                "run this again when outboxd is not behind: outboxd lag -c FILE; or allow more time: --hold 20s",
            ),
        }
    }
}

/// Returns the argument of `--mark` for a column, with an example of its value if the column holds states.
fn mark_argument(column: Option<&String>) -> String {
    let column = column.map_or("COLUMN", String::as_str);
    let value = if STATES.contains(&plain(column).as_str()) { "=PUBLISHED" } else { "" };
    quoted(&format!("{column}{value}"))
}
