//! Records of an event in Kafka.

use outboxd_inbox::dead_letter::{Contents, DeadLetter};
use serde::Serialize;

use super::error::ExplainError;
use super::position::Position;
use super::wanted::Wanted;
use crate::cli::prove::verify::NamedRows;
use crate::cli::shell::decoding::RecordDecoder;
use crate::cli::shell::notice::open_scan;
use crate::cli::shell::progress::Progress;
use crate::connect::converter::registered::Side;
use crate::kafka::{self, ScannedPartition, ScannedRecord};
use crate::verification::read;
use crate::wal::Lsn;

/// Most records that are stored: a key can have any number.
pub(super) const RECORDS_MAX: usize = 1_000;

const CREATE: &str = "create";
const READ: &str = "read";
const UPDATE: &str = "update";

/// Place where records are searched for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'p> {
    pub(super) options: &'p kafka::Options,
    pub(super) topics: &'p [String],
    /// True if the user named the topics: then they must exist.
    pub(super) named: bool,
    pub(super) dead_letters: Option<&'p str>,
    /// Rows found in the table, to which records with their ids are compared.
    pub(super) rows: Option<&'p NamedRows>,
}

/// Records in Kafka.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// In the order of the topics, partitions and offsets.
    pub(super) sent: Vec<FoundRecord>,
    pub(super) dead_letters: Vec<FoundRecord>,
    /// Number of records that were read.
    pub(super) searched: u64,
    /// True if more were found than are stored.
    pub(super) more: bool,
    /// Number of the others that could not be read: they may match.
    pub(super) unread: u64,
    /// Reason why the first of them could not.
    pub(super) unread_because: Option<String>,
    /// Number of the others without a position in the WAL, when that is searched for: they may match.
    pub(super) without_position: u64,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct FoundRecord {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
    /// Timestamp in milliseconds since 1970.
    pub(super) timestamp_ms: Option<i64>,
    /// True if the broker set it when it appended the record (`message.timestamp.type=LogAppendTime`).
    pub(super) is_time_of_arrival: bool,
    pub(super) event_id: Option<String>,
    pub(super) position: Option<Position>,
    /// Operation on the row, if the value of a change event has it.
    pub(super) operation: Option<&'static str>,
    /// Transaction of the change, if the value has it.
    pub(super) transaction: Option<u32>,
    /// True if topic, key and value are those of the row with its id, or of a dead letter of that row. None without such a row.
    #[serde(skip_serializing_if = "is_unless_false")]
    pub(super) is_of_row: Option<bool>,
    /// True for a dead letter without a record that can be sent again: the columns of a row, or no value.
    #[serde(skip)]
    pub(super) lacks_record: bool,
}

fn is_unless_false(is_of_row: &Option<bool>) -> bool {
    *is_of_row != Some(false)
}

impl FoundRecord {
    /// Returns false if the record is known to share only the id with the row.
    pub(super) fn may_be_it(&self) -> bool {
        self.is_of_row != Some(false)
    }

    /// Returns whether its transaction is that of the change: a snapshot has its own, for rows of any.
    pub(super) fn is_of_its_transaction(&self) -> bool {
        self.transaction.is_some() && matches!(self.operation, Some(CREATE | UPDATE | "delete"))
    }

    /// Returns whether the row existed after this change.
    pub(super) fn leaves_a_row(&self) -> bool {
        matches!(self.operation, Some(CREATE | READ | UPDATE))
    }
}

impl Records {
    /// Reads the topics to their present ends. Blocks.
    pub(super) fn find(
        Place { options, topics, named, dead_letters, rows }: Place<'_>,
        wanted: &Wanted,
        since_ms: Option<i64>,
        decoder: &mut RecordDecoder,
        progress: &Progress,
    ) -> Result<Self, ExplainError> {
        let mut all = topics.to_vec();
        all.extend(
            dead_letters.filter(|letters| !topics.iter().any(|topic| topic == letters)).map(str::to_owned),
        );
        let scan = open_scan(options, &all, since_ms, progress)?;
        let is_there = |topic: &&String| scan.partitions().iter().any(|partition| partition.topic == **topic);
        if let Some(absent) = topics.iter().find(|topic| named && !is_there(topic)) {
            return Err(ExplainError::NoTopic(absent.clone()));
        }
        progress.begin("reading records", Some(count(scan.partitions())));
        let mut found = Self::default();
        scan.read::<ExplainError>(
            || true,
            |record| {
                progress.step();
                found.look(record, wanted, dead_letters, rows, decoder)
            },
        )?;
        let place = |record: &FoundRecord| (record.topic.clone(), record.partition, record.offset);
        found.sent.sort_by_key(place);
        found.dead_letters.sort_by_key(place);
        Ok(found)
    }

    /// Returns true if no record can be that of the row.
    pub(super) fn is_empty(&self) -> bool {
        !self.sent.iter().chain(&self.dead_letters).any(FoundRecord::may_be_it)
    }

    fn look(
        &mut self,
        record: &ScannedRecord<'_>,
        wanted: &Wanted,
        dead_letters: Option<&str>,
        rows: Option<&NamedRows>,
        decoder: &mut RecordDecoder,
    ) -> Result<(), ExplainError> {
        self.searched = self.searched.saturating_add(1);
        let position = record.position().and_then(Position::parse);
        let mut unread = None;
        // Headers need no schema.
        let is_found = match wanted.lsn {
            Some(lsn) if position.as_ref().is_some_and(|position| position.lsn == lsn) => true,
            Some(lsn) => {
                let said = said_lsn(record, decoder, &mut unread)?;
                let says_nothing = position.is_none() && said.is_none() && unread.is_none();
                // A tombstone comes after the delete, which has the position.
                let may_be_it = says_nothing && record.value().is_some();
                self.without_position = self.without_position.saturating_add(u64::from(may_be_it));
                said == Some(lsn)
            }
            None => {
                wanted.is_said_by_id(record.event_id())
                    || wanted.key && key_says(record, wanted, decoder, &mut unread)?
            }
        };
        if !is_found {
            self.unread = self.unread.saturating_add(u64::from(unread.is_some()));
            self.unread_because = self.unread_because.take().or(unread);
            return Ok(());
        }
        let is_letter = dead_letters == Some(record.topic());
        let list = if is_letter { &mut self.dead_letters } else { &mut self.sent };
        if list.len() >= RECORDS_MAX {
            self.more = true;
            return Ok(());
        }
        let (operation, transaction) =
            if wanted.fields { change(record, decoder)? } else { Default::default() };
        list.push(FoundRecord {
            operation,
            transaction,
            topic: record.topic().to_owned(),
            partition: record.partition(),
            offset: record.offset(),
            timestamp_ms: record.timestamp_ms(),
            is_time_of_arrival: record.created_ms().is_none() && record.timestamp_ms().is_some(),
            event_id: record.event_id().map(|id| String::from_utf8_lossy(id).into_owned()),
            position,
            is_of_row: rows.and_then(|rows| rows.has(record)),
            lacks_record: is_letter && lacks_record(record),
        });
        Ok(())
    }
}

fn lacks_record(letter: &ScannedRecord<'_>) -> bool {
    let headers: Vec<_> = letter.headers().map(|header| (header.name, header.value)).collect();
    let read = DeadLetter::read(headers.iter().copied());
    read.is_some_and(|letter| matches!(letter.contents, Contents::Row | Contents::ValueLeftOut))
}

/// Reads the LSN of the change from the record's value: `source.lsn` of a change event, or the field that a transform made of it.
fn said_lsn(
    record: &ScannedRecord<'_>,
    decoder: &mut RecordDecoder,
    unread: &mut Option<String>,
) -> Result<Option<Lsn>, ExplainError> {
    let Some(value) = record.value() else { return Ok(None) };
    let value = decoder.known(Side::Value, value, |why| *unread = Some(why))?;
    Ok(read(&value).and_then(|said| said.lsn).map(Lsn::new))
}

/// Returns the operation of a change event, and its transaction, if its value can be read.
fn change(
    record: &ScannedRecord<'_>,
    decoder: &mut RecordDecoder,
) -> Result<(Option<&'static str>, Option<u32>), ExplainError> {
    let Some(value) = record.value() else { return Ok((Some("tombstone"), None)) };
    let value = decoder.known(Side::Value, value, drop)?;
    let Some(said) = read(&value) else { return Ok((None, None)) };
    let known =
        [("c", CREATE), ("r", READ), ("u", UPDATE), ("d", "delete"), ("t", "truncate"), ("m", "message")];
    let word =
        said.op.and_then(|op| known.into_iter().find(|(letter, _)| *letter == op)).map(|(_, word)| word);
    Ok((word, said.xid))
}

fn key_says(
    record: &ScannedRecord<'_>,
    wanted: &Wanted,
    decoder: &mut RecordDecoder,
    unread: &mut Option<String>,
) -> Result<bool, ExplainError> {
    let Some(key) = record.key() else { return Ok(false) };
    let key = decoder.known(Side::Key, key, |why| *unread = Some(why))?;
    Ok(wanted.is_said_by_key(&key))
}

fn count(partitions: &[ScannedPartition]) -> u64 {
    let each = partitions.iter().map(|partition| partition.end.saturating_sub(partition.from));
    each.map(|count| u64::try_from(count).unwrap_or_default()).sum()
}
