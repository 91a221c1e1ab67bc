//! Tables whose rows are routed by an EventRouter among the transforms: each row has a record of its own, with its id.

use super::probe::{Captured, reshaped, select};
use super::render::{Rendered, Renderer, context};
use super::rows::row_name;
use crate::change::{ChangeEvents, ChangeTable, RowChange, Snapshot};
use crate::cli::prove::verify::error::VerifyError;
use crate::cli::prove::verify::rows::TopicList;
use crate::cli::prove::verify::scratch::Spill;
use crate::connect::record::ID_HEADER;
use crate::error::chain;
use crate::pgoutput::Tuple;
use crate::postgres::TableFacts;
use crate::verification::{Contents, Expected, Identity, RowName, Spot, TopicNumber, TraceHeaders};

/// Error for a row whose record differs at each conversion.
const DIFFERS: &str = "make another record of the same outbox row each time";

/// An outbox.
pub(super) struct OutboxTable {
    pub(super) facts: TableFacts,
    pub(super) select: String,
    bound: ChangeTable,
    columns: usize,
}

/// The rows of all outboxes, as the records that they should have become.
pub(super) struct OutboxRows {
    pub(super) tables: Vec<OutboxTable>,
    pub(super) topics: TopicList,
    pub(super) rows: Spill<Expected>,
    pub(super) share: Option<u64>,
    pub(super) traces: TraceHeaders,
    /// Number of rows that the transforms drop.
    pub(super) dropped: u64,
}

impl From<Captured> for OutboxTable {
    fn from(Captured { facts, columns, bound }: Captured) -> Self {
        Self { select: select(&facts, &columns), columns: columns.len(), facts, bound }
    }
}

impl OutboxRows {
    pub(super) fn new(rows: Spill<Expected>, traces: TraceHeaders) -> Self {
        Self { tables: Vec::new(), topics: TopicList::default(), rows, share: None, traces, dropped: 0 }
    }

    /// Adds one row of the table with this number.
    pub(super) async fn take(
        &mut self,
        number: u32,
        table: &OutboxTable,
        row: &Tuple<'_>,
        renderer: &mut Renderer<'_>,
        changes: &ChangeEvents,
    ) -> Result<(), VerifyError> {
        let name = row_name(number, table.columns, row);
        let mut made = Vec::new();
        for moment in [1, 2] {
            let change = RowChange::Insert(row.columns());
            let at = context(moment, Snapshot::False);
            match renderer.render_bytes(&table.bound, change, &at).await? {
                Ok(records) => made.push(records.into_iter().last()),
                Err(error) => return self.add(&refused(name, chain(&error))),
            }
        }
        let mut made = made.into_iter();
        let (Some(Some(record)), Some(Some(again))) = (made.next(), made.next()) else {
            self.dropped = self.dropped.saturating_add(1);
            return Ok(());
        };
        let contents = self.contents(&record);
        if contents != self.contents(&again) || record.topic != again.topic {
            return Err(reshaped(changes, &table.bound, DIFFERS));
        }
        // One that no column decides is the time at which it is sent.
        let timestamp_ms = (record.timestamp_ms == again.timestamp_ms).then_some(record.timestamp_ms);
        let expected = self.expected(&record, contents, name)?;
        self.add(&Expected { timestamp_ms, ..expected })
    }

    fn add(&mut self, expected: &Expected) -> Result<(), VerifyError> {
        if self.share.is_none_or(|share| expected.identity.is_in_share(share)) {
            self.rows.add(expected)?;
        }
        Ok(())
    }

    fn contents(&self, record: &Rendered) -> Contents {
        let headers = record.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
        Contents::new(record.key.as_deref(), record.value.as_deref(), headers, self.traces)
    }

    fn expected(
        &mut self,
        record: &Rendered,
        contents: Contents,
        mut row: RowName,
    ) -> Result<Expected, VerifyError> {
        let id = record.headers.iter().find(|(name, _)| name == ID_HEADER);
        let id = id.and_then(|(_, value)| value.as_deref());
        row.id = id.and_then(|id| std::str::from_utf8(id).ok()).map(str::to_owned);
        Ok(Expected {
            identity: Identity::new(id, contents),
            contents,
            topic: self.topics.number(&record.topic)?,
            spot: record.spot(),
            timestamp_ms: None,
            written_ms: None,
            order: None,
            refusal: None,
            row,
        })
    }
}

fn refused(row: RowName, reason: String) -> Expected {
    let contents = Contents::default();
    Expected {
        identity: Identity::of_fields(u32::MAX, (row.table, row.lies_in, row.place)),
        contents,
        topic: TopicNumber(u32::MAX),
        spot: Spot::Any,
        timestamp_ms: None,
        written_ms: None,
        order: None,
        refusal: Some(reason),
        row,
    }
}
