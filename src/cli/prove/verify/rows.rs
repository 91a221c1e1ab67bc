//! Reads the rows, and makes the expected record of each: with the parts that `run` uses.

use std::collections::HashMap;
use std::str::FromStr;

use super::error::VerifyError;
use super::plan::{Plan, TablePlan};
use super::scratch::Spill;
use crate::cli::shell::progress::Progress;
use crate::connect::converter::ConvertError;
use crate::connect::converter::registered::Registration;
use crate::error::chain;
use crate::kafka::positive_hash;
use crate::outbox::{Encoder, RouteContext, RouteError, RoutedRecord};
use crate::pgoutput::{ColumnValue, Tuple};
use crate::postgres::{self, SnapshotReader, SnapshotRow, TlsSetup};
use crate::relay::RelayParts;
use crate::verification::{Contents, Expected, Identity, RowName, Spot, TopicNumber, TraceHeaders};
use crate::wal::Lsn;

/// Behind a table's own columns: `tableoid`, `ctid`, the order and the time of writing.
const ADDED_COLUMNS: usize = 4;

/// Most topics that rows may lead to.
const TOPICS_MAX: usize = 10_000;

/// The record's timestamp is this when no column decides it.
const UNDECIDED_MS: i64 = i64::MIN;

/// Expression of the end of the WAL, on a standby too.
pub(super) const WAL_END: &str = "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() \
                                  ELSE pg_current_wal_insert_lsn() END";
pub(super) const ASKING_WAL_END: &str = "asking where the WAL ends";

/// The topics that rows lead to.
#[derive(Debug, Default)]
pub(super) struct TopicList {
    pub(super) names: Vec<String>,
    numbers: HashMap<String, TopicNumber>,
}

/// Reads the rows of all tables as they are at one moment.
pub(super) struct RowReader<'r> {
    pub(super) parts: &'r RelayParts,
    pub(super) plan: &'r Plan,
    pub(super) progress: &'r Progress,
    pub(super) rows: Spill<Expected>,
    pub(super) topics: TopicList,
    encoder: Encoder,
}

impl TopicList {
    /// Returns the number of a topic, a new one if need be.
    pub(super) fn number(&mut self, name: &str) -> Result<TopicNumber, VerifyError> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        if self.names.len() >= TOPICS_MAX {
            return Err(VerifyError::TooManyTopics { max: TOPICS_MAX });
        }
        let number = TopicNumber(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    /// Returns the number of a known topic.
    pub(super) fn find(&self, name: &str) -> Option<TopicNumber> {
        self.numbers.get(name).copied()
    }
}

impl<'r> RowReader<'r> {
    pub(super) fn new(
        parts: &'r RelayParts,
        plan: &'r Plan,
        progress: &'r Progress,
        rows: Spill<Expected>,
    ) -> Self {
        Self { parts, plan, progress, rows, topics: TopicList::default(), encoder: Encoder::default() }
    }

    /// Reads all tables. Returns where the WAL ended then.
    pub(super) async fn read(&mut self, tls: &TlsSetup, application: &str) -> Result<Lsn, VerifyError> {
        let mut reader = SnapshotReader::open(&self.parts.postgres, tls, application, None).await?;
        reader.use_catalog_names().await?;
        let wal_end = wal_end(&mut reader).await?;
        for (number, table) in (0..).zip(&self.plan.tables) {
            reader.select(table.select()).await?;
            loop {
                match reader.next().await? {
                    SnapshotRow::Columns(_) => {}
                    SnapshotRow::Row(row) => self.take(number, table, &row).await?,
                    SnapshotRow::End => break,
                }
            }
        }
        Ok(wal_end)
    }

    async fn take(&mut self, number: u32, table: &TablePlan, row: &Tuple<'_>) -> Result<(), VerifyError> {
        let expected = loop {
            match self.expect(number, table, row)? {
                Ok(expected) => break expected,
                Err(registration) => {
                    let id = self.parts.registries.id(&registration).await?;
                    self.encoder.learn(*registration, id);
                }
            }
        };
        self.progress.step();
        if self.plan.share.is_none_or(|share| expected.identity.is_in_share(share)) {
            self.rows.add(&expected)?;
        }
        Ok(())
    }

    /// Returns the expected record of a row, or the schema that is needed for it.
    fn expect(
        &mut self,
        number: u32,
        table: &TablePlan,
        row: &Tuple<'_>,
    ) -> Result<Result<Expected, Box<Registration>>, VerifyError> {
        let added = Added::of(table, row);
        let context = RouteContext { now_ms: UNDECIDED_MS };
        let error = match table.bound.route(row, context, &mut self.encoder) {
            Ok(routed) => {
                let topic = self.topics.number(routed.topic)?;
                return Ok(Ok(added.expected(number, &routed, topic, self.plan.traces)));
            }
            Err(RouteError::Convert { source: ConvertError::Unregistered(registration), .. }) => {
                return Ok(Err(registration));
            }
            Err(error) => error,
        };
        let remains = table.bound.raw_record(row, &mut self.encoder);
        let headers = remains.headers();
        let id = headers.iter().find(|header| header.name == crate::connect::record::ID_HEADER);
        let pairs = headers.iter().map(|header| (header.name, header.value));
        let letter =
            Contents::new(remains.key.as_deref(), Some(remains.value.as_slice()), pairs, self.plan.traces);
        Ok(Ok(added.refused(number, id.and_then(|header| header.value), letter, chain(&error))))
    }
}

/// Values that were read besides a table's own columns.
struct Added {
    lies_in: u32,
    place: (u32, u16),
    order: Option<i64>,
    written_ms: Option<i64>,
}

impl Added {
    fn of(table: &TablePlan, row: &Tuple<'_>) -> Self {
        let mut added = row.columns().iter().skip(table.columns).take(ADDED_COLUMNS).map(text);
        let mut next = || added.next().flatten();
        Self {
            lies_in: number(next()).unwrap_or_default(),
            place: next().and_then(place).unwrap_or_default(),
            order: number(next()),
            written_ms: number(next()),
        }
    }

    fn expected(
        self,
        table: u32,
        routed: &RoutedRecord<'_>,
        topic: TopicNumber,
        traces: TraceHeaders,
    ) -> Expected {
        let record = routed.as_record();
        let headers = routed.headers.iter().map(|header| (header.name, header.value));
        let contents = Contents::new(record.key, record.value, headers, traces);
        let id = record.event_id();
        Expected {
            identity: Identity::new(id, contents),
            contents,
            topic,
            spot: match (record.partition, record.key) {
                (Some(partition), _) => Spot::Decided(partition),
                (None, Some(key)) => Spot::Hashed(positive_hash(key)),
                (None, None) => Spot::Any,
            },
            timestamp_ms: Some(record.timestamp_ms).filter(|millis| *millis != UNDECIDED_MS),
            // Records without a key are in any partition, and so in no order.
            order: self.order.filter(|_| record.key.is_some()),
            written_ms: self.written_ms,
            refusal: None,
            row: self.name(table, id),
        }
    }

    /// Makes the entry of a row that makes no record, with the contents of its dead letter.
    fn refused(self, table: u32, id: Option<&[u8]>, contents: Contents, reason: String) -> Expected {
        Expected {
            identity: Identity::new(id, contents),
            contents,
            topic: TopicNumber(u32::MAX),
            spot: Spot::Any,
            timestamp_ms: None,
            order: None,
            written_ms: self.written_ms,
            refusal: Some(reason),
            row: self.name(table, id),
        }
    }

    fn name(&self, table: u32, id: Option<&[u8]>) -> RowName {
        let id = id.and_then(|id| std::str::from_utf8(id).ok()).map(str::to_owned);
        RowName { table, lies_in: self.lies_in, place: self.place, id }
    }
}

/// Reads the end of the WAL in the transaction that reads the rows, and so after everything that it reads.
async fn wal_end(reader: &mut SnapshotReader) -> Result<Lsn, VerifyError> {
    reader.select(&format!("SELECT {WAL_END}")).await?;
    let mut end = None;
    loop {
        match reader.next().await? {
            SnapshotRow::Columns(_) => {}
            SnapshotRow::Row(row) => {
                end = row.columns().first().and_then(text).and_then(|text| text.parse().ok());
            }
            SnapshotRow::End => return end.ok_or_else(|| unreadable(ASKING_WAL_END)),
        }
    }
}

/// Makes the error of an unreadable answer. As zero it would make each record a later one, and no row
/// missing.
pub(super) fn unreadable(doing: &'static str) -> VerifyError {
    postgres::Error::Unexpected { message: "answer".to_owned(), doing }.into()
}

pub(super) fn text<'a>(value: &ColumnValue<'a>) -> Option<&'a str> {
    match value {
        ColumnValue::Text(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

pub(super) fn number<N: FromStr>(text: Option<&str>) -> Option<N> {
    text?.parse().ok()
}

/// Parses `(block,number)`.
pub(super) fn place(text: &str) -> Option<(u32, u16)> {
    let (block, number) = text.strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
    Some((block.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ctid_is_a_block_and_a_number() {
        let cases =
            [("(0,1)", Some((0, 1))), ("(4294967295,0)", Some((u32::MAX, 0))), ("0,1", None), ("", None)];
        for (text, expected) in cases {
            assert_eq!(place(text), expected, "{text}");
        }
    }

    #[test]
    fn topics_have_numbers_up_to_a_limit() {
        let mut topics = TopicList::default();
        for n in 0..TOPICS_MAX {
            assert_eq!(topics.number(&n.to_string()).unwrap().0, u32::try_from(n).unwrap());
        }
        assert_eq!(topics.number("7").unwrap(), TopicNumber(7));
        assert_eq!((topics.find("8"), topics.find("x")), (Some(TopicNumber(8)), None));
        assert!(matches!(topics.number("x"), Err(VerifyError::TooManyTopics { .. })));
    }
}
