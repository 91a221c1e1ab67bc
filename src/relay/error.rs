//! The reason why the relay stopped.

mod kinds;
mod row_name;

use std::time::Duration;

use super::capture::captured::CaptureError;
use super::delivery::exactly_once::{Mismatch, StateError};
use super::progress::position::RecordError;
use crate::ack::LedgerError;
use crate::error::{Diagnose, Diagnosis, Exit};
use crate::kafka::tool_lines;
use crate::outbox::{BindError, MessageError, RouteError};
use crate::pgoutput::UnknownRelation;
use crate::source_offset::OffsetError;
use crate::telemetry::Peer;
use crate::transaction::{Divergence, EventPosition, SequenceError};
use crate::wal::Lsn;
use crate::wire::DecodeError;
use crate::{kafka, postgres, registry};

pub(crate) use row_name::RowName;

/// The reason why the relay stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// PostgreSQL.
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    /// Kafka.
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
    /// The schema registry.
    #[error(transparent)]
    Registry(#[from] registry::Error),
    /// A table cannot be an outbox under this configuration.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Rows that are captured, or may be, cannot be sent.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A row cannot be routed, converted or sent.
    #[error(
        "the row{} of {} of the transaction that committed at {}{} in table {table} cannot be sent",
        .name.event(), .position.change(), .position.commit_lsn, .name.transaction()
    )]
    Row {
        /// `schema.table`.
        table: String,
        /// Its event id and transaction.
        name: Box<RowName>,
        /// Which row.
        position: EventPosition,
        /// Why.
        #[source]
        source: Box<RouteError>,
    },
    /// A logical message cannot be routed, converted or sent.
    #[error("the logical message of {} of the transaction that committed at {}, with prefix {prefix:?}, cannot be sent", .position.change(), .position.commit_lsn)]
    Message {
        /// Prefix that `pg_logical_emit_message` was given.
        prefix: String,
        /// Message; one outside a transaction is the first of its own.
        position: EventPosition,
        /// Why.
        #[source]
        source: Box<MessageError>,
    },
    /// Kafka refused a row's record.
    #[error("a row of the transaction that committed at {commit_lsn} was refused by Kafka")]
    Refused {
        /// Transaction.
        commit_lsn: Lsn,
        /// Why.
        #[source]
        source: Box<kafka::Rejection>,
    },
    /// Kafka refused a row's record, and another session sends it to the dead-letter topic.
    #[error(
        "a row of the transaction that committed at {commit_lsn} was refused by Kafka: it goes to the dead-letter topic"
    )]
    Condemned {
        /// Transaction.
        commit_lsn: Lsn,
        /// Why.
        #[source]
        source: Box<kafka::Rejection>,
    },
    /// No further key can be held back behind a dead letter.
    #[error("{} of the transaction that committed at {} is a dead letter, but {max} other keys are blocked already", .position.change(), .position.commit_lsn)]
    HeldKeysFull {
        /// Event.
        position: EventPosition,
        /// `outboxd.deadletterqueue.keys.max`
        max: usize,
    },
    /// A dead letter would be written without its value, which cleanup then deletes.
    #[error(
        "{} of the transaction that committed at {} is too large for the dead-letter topic {topic} too ({bytes} bytes), and outboxd.cleanup.enable would \
         delete the only copy of it",
        .position.change(), .position.commit_lsn
    )]
    DeadLetterTooLarge {
        /// Event.
        position: EventPosition,
        /// `errors.deadletterqueue.topic.name`
        topic: String,
        /// Approximate size of the dead letter.
        bytes: usize,
    },
    /// Kafka refused a heartbeat or a notification.
    #[error("a heartbeat or a notification was refused by Kafka")]
    Heartbeat(#[source] Box<kafka::Rejection>),
    /// A row was updated and `table.op.invalid.behavior=fatal`.
    #[error(
        "a row of table {table} was updated in the transaction that committed at {commit_lsn}, and transforms.outbox.table.op.invalid.behavior=fatal"
    )]
    Updated {
        /// `schema.table`.
        table: String,
        /// Transaction.
        commit_lsn: Lsn,
    },
    /// A pgoutput message cannot be decoded.
    #[error("the WAL message at {lsn} cannot be decoded")]
    Decode {
        /// Where.
        lsn: Lsn,
        /// Message, offset, and reason.
        #[source]
        source: DecodeError,
    },
    /// A row of a relation that was not described.
    #[error(transparent)]
    Relation(#[from] UnknownRelation),
    /// Messages in an impossible order.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    /// An impossible call of the ledger: a bug of outboxd.
    #[error("the acknowledgement ledger is inconsistent")]
    Ledger(#[from] LedgerError),
    /// The file of the stored offsets cannot be read or written.
    #[error("offset.storage.file.filename: {path} cannot be {doing}")]
    OffsetFile {
        /// The file.
        path: String,
        /// `read` or `written`.
        doing: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not one of a `FileOffsetBackingStore`.
    #[error("offset.storage.file.filename: {path} is not a file of stored offsets")]
    NoOffsetMap {
        /// The file.
        path: String,
        /// Where, and what is there instead.
        #[source]
        source: DecodeError,
    },
    /// The stored value is no offset of Debezium's PostgreSQL connector.
    #[error("{store} has a value under {key} that is not an offset of Debezium's PostgreSQL connector")]
    NoOffset {
        /// The topic or the file.
        store: String,
        /// Connector name and topic prefix.
        key: String,
        /// Fault of the offset.
        #[source]
        source: OffsetError,
    },
    /// The stored offset belongs to another history: skipping what it describes as sent would lose rows.
    #[error("the offset in {store} is at {offset}, beyond the end of the server's WAL at {wal_end}")]
    OffsetAhead {
        /// The topic or the file.
        store: String,
        /// The offset's furthest position.
        offset: Lsn,
        /// The end of the WAL.
        wal_end: Lsn,
    },
    /// The state of the last Kafka transaction was not written by outboxd.
    #[error("topic {topic} has a value under {slot:?} that is not the state of a Kafka transaction")]
    NoState {
        /// `outboxd.exactly.once.state.topic`
        topic: String,
        /// `slot.name`
        slot: String,
        /// Fault of the state.
        #[source]
        source: StateError,
    },
    /// The state belongs to another history.
    #[error("the state of exactly-once in topic {topic} under {slot:?} is from another server's history")]
    OtherState {
        /// `outboxd.exactly.once.state.topic`
        topic: String,
        /// `slot.name`
        slot: String,
        /// Difference.
        #[source]
        source: Mismatch,
    },
    /// A new slot would begin behind a gap.
    #[error(
        "{store} has an offset, but there is no replication slot {slot:?}: a new slot lacks the rows after the offset"
    )]
    OffsetWithoutSlot {
        /// The topic or the file.
        store: String,
        /// `slot.name`.
        slot: String,
    },
    /// The same, as the state of exactly-once shows.
    #[error("Kafka has events up to {sent_up_to}, but there is no slot {slot:?}: a new slot lacks rows")]
    StateWithoutSlot {
        /// `slot.name`.
        slot: String,
        /// End of the state.
        sent_up_to: Lsn,
    },
    /// The server that answers is not the one that this process has streamed from.
    #[error("this is not the server that outboxd has streamed from: {difference}")]
    OtherHistory {
        /// Difference.
        difference: String,
        /// Value that accepts the history and restarts on it, once that is known.
        accept: Option<Lsn>,
    },
    /// The stored position cannot be read.
    #[error("topic {topic:?} has a value under {key} that is not a position of outboxd")]
    NoPosition {
        /// `outboxd.position.topic`
        topic: String,
        /// Key of the relay.
        key: String,
        /// Fault of the position.
        #[source]
        source: RecordError,
    },
    /// The server has not got the transactions that this process has read from it.
    #[error("the server's history went back: a copy or a backup was put back")]
    WentBack(#[from] Divergence),
    /// A stop did not drain in time.
    #[error("{records} records were not acknowledged within {} s of the stop; they will be sent again", .within.as_secs())]
    Undrained {
        /// Number of records.
        records: usize,
        /// `outboxd.shutdown.timeout.ms`.
        within: Duration,
    },
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Postgres(error) => error.diagnosis(),
            Self::Kafka(error) => error.diagnosis(),
            Self::Registry(error) => error.diagnosis(),
            Self::Bind(error) => error.diagnosis(),
            Self::Capture(error) => error.diagnosis(),
            Self::Row { source, .. } => Diagnosis::definite(Exit::Row).with_optional_fix(source.fix()),
            Self::Message { source, .. } => Diagnosis::definite(Exit::Row).with_optional_fix(source.fix()),
            Self::Refused { source, .. } => Diagnosis::definite(Exit::Row).with_optional_fix(source.fix()),
            Self::Condemned { source, .. } => Diagnosis::transient(Exit::Row).with_optional_fix(source.fix()),
            Self::Heartbeat(source) => Diagnosis::definite(Exit::Failed).with_optional_fix(source.fix()),
            Self::HeldKeysFull { .. } => Diagnosis::definite(Exit::Row).with_fix(
                "something is wrong with many events: see the log and the dead-letter topic. Raise \
                 outboxd.deadletterqueue.keys.max for more keys; a restart unblocks them all, and their later \
                 events then go to their own topics",
            ),
            Self::DeadLetterTooLarge { topic, bytes, .. } => Diagnosis::definite(Exit::Row).with_fix(format!(
                "{}; or set outboxd.cleanup.enable=false: the dead letter then has no value, which stays in the table",
                tool_lines::set_property(topic, &format!("max.message.bytes={}", bytes.saturating_mul(2)))
            )),
            Self::Updated { .. } => Diagnosis::definite(Exit::Row).with_fix(
                "outbox rows are written once: insert a new row instead, or set the option to warn",
            ),
            Self::OffsetFile { .. } => Diagnosis::definite(Exit::Precondition)
                .with_fix("let outboxd's user read and write it, or remove the key"),
            Self::NoOffsetMap { .. } | Self::NoOffset { .. } => Diagnosis::definite(Exit::Precondition).with_fix(
                "make sure that name, topic.prefix and the offset.storage keys are those of the connector that is replaced; \
                 without the offset.storage keys outboxd begins where the slot stands, and repeats some events",
            ),
            Self::OffsetAhead { .. } => Diagnosis::definite(Exit::Precondition).with_fix(
                "it is from another server, or newer than a restored backup. Make sure that database.hostname is the server \
                 of the connector that is replaced. If it is, remove the stored offset (of a stopped connector: curl -X \
                 DELETE http://…/connectors/NAME/offsets), or remove the offset.storage keys: outboxd then begins where the \
                 slot stands",
            ),
            Self::OtherHistory { accept, .. } => {
                Diagnosis::definite(Exit::SlotLost).with_fix(other_history_fix(*accept))
            }
            Self::NoPosition { topic, .. } => Diagnosis::definite(Exit::Precondition).with_fix(format!(
                "if another program writes to {topic}, set outboxd.position.topic to another topic. If a newer version of \
                 outboxd wrote the value, use that version"
            )),
            Self::WentBack(_) => Diagnosis::definite(Exit::SlotLost).with_fix(
                "none of the new rows was skipped. If this is the wrong server, correct database.hostname. If outboxd must \
                 continue with this server, start it again: it sends everything after the slot's position. Kafka keeps the events of rows \
                 that no longer exist: `outboxd verify` counts them",
            ),
            Self::NoState { .. } => Diagnosis::definite(Exit::Precondition).with_fix(
                "if another program writes there, set outboxd.exactly.once.state.topic to another topic. If a newer version \
                 of outboxd wrote the value, use that version",
            ),
            Self::OtherState { topic, .. } => Diagnosis::definite(Exit::SlotLost).with_fix(format!(
                "if database.hostname leads to a copy, to a restored backup or to an old primary, correct that: its rows \
                 must not be sent as if they were this source's. If this server must continue from here, \
                 begin with a state of its own (another outboxd.exactly.once.state.topic than {topic}, or another topic.prefix or slot.name): \
                 outboxd then begins at the slot's position, and events that are already in Kafka are sent again once"
            )),
            Self::OffsetWithoutSlot { .. } => Diagnosis::definite(Exit::SlotLost).with_fix(
                "if slot.name is wrong, correct it. To send all rows that are in the table: -X slot.recovery=snapshot. To \
                 begin with new rows only: remove the offset.storage keys, with -X snapshot.mode=no_data",
            ),
            Self::StateWithoutSlot { .. } => Diagnosis::definite(Exit::SlotLost).with_fix(
                "if slot.name is wrong, correct it. To send all rows that are in the table: -X slot.recovery=snapshot. To \
                 begin with new rows only: another outboxd.exactly.once.state.topic, with -X snapshot.mode=no_data",
            ),
            Self::Undrained { .. } => Diagnosis::definite(Exit::Failed)
                .with_fix("raise outboxd.shutdown.timeout.ms, or look at Kafka"),
            // A fresh connection shows whether the fault was on the way.
            Self::Decode { .. } | Self::Relation(_) | Self::Sequence(_) => Diagnosis::transient(Exit::Failed),
            Self::Ledger(_) => Diagnosis::definite(Exit::Failed),
        }
    }
}

fn other_history_fix(accept: Option<Lsn>) -> String {
    let restart = match accept {
        Some(lsn) => format!(
            "start with -X outboxd.position.accept={lsn}: outboxd then relies on the slot that it finds there"
        ),
        None => "start outboxd again: it names the value of outboxd.position.accept that this needs. If it does not, create the slot again before".to_owned(),
    };
    format!(
        "if database.hostname leads to a copy or to an old primary, correct that: its rows must not be sent as if \
         they were this source's. If another relay has the same name, topic.prefix, database and slot, give one of \
         them another topic.prefix. If this server must continue from here: of an outbox, outboxd move plan -c FILE; else {restart}"
    )
}
