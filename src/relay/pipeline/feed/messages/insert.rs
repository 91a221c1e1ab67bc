//! Inserted rows: events of an outbox, or change events.

use crate::change::{RowChange, Snapshot};
use crate::kafka::Transport;
use crate::outbox::RouteContext;
use crate::pgoutput::Tuple;
use crate::relay::capture::route::Bound;
use crate::relay::capture::table::Table;
use crate::relay::error::{Error, RowName};
use crate::relay::pipeline::feed::in_hand::StreamEvent;
use crate::relay::pipeline::feed::outgoing::Unmade;
use crate::relay::pipeline::feed::{Feed, Outcome, report_replaced};
use crate::relay::time::clock::Now;
use crate::telemetry::Change;
use crate::trace::RowMoment;
use crate::wal::{Lsn, Oid};

impl<T: Transport> Feed<'_, T> {
    /// Handles an inserted row.
    ///
    /// # Errors
    /// When it cannot be routed or sent.
    pub(in crate::relay) fn insert(
        &mut self,
        lsn: Lsn,
        relation: Oid,
        row: &Tuple<'_>,
        now: Now,
    ) -> Result<Outcome, Error> {
        let event = self.stream_event(lsn)?;
        let outcome = self.insert_event(event, relation, row, now)?;
        self.end_event(lsn, &outcome);
        Ok(outcome)
    }

    fn insert_event(
        &mut self,
        event: StreamEvent,
        relation: Oid,
        row: &Tuple<'_>,
        now: Now,
    ) -> Result<Outcome, Error> {
        let table = match self.tables.described.get(relation)? {
            Table::Captured(Bound::Outbox(table)) => table,
            Table::Captured(Bound::Changes(_)) => {
                return self.change(&[relation], RowChange::Insert(row.columns()), event, now);
            }
            Table::NotCaptured(rows) => {
                rows.count();
                return Ok(Outcome::None);
            }
        };
        let StreamEvent { lsn, position, sent_before } = event;
        let in_kafka = self.out.flight.has(position.end_of_event())?.then_some("committed");
        if let Some(reason) = in_kafka.or(self.skip_reason(sent_before)) {
            self.out.metrics.changes(Change::Insert, 1);
            self.tables.passed.skip(self.out.metrics, relation, table.name(), reason);
            return Ok(Outcome::None);
        }
        let context = RouteContext { now_ms: now.unix_ms() };
        let tracing = table.tracing();
        let begun = tracing.and_then(|tracing| tracing.begin(row.columns(), self.moment(lsn, now)));
        let transaction = self.place.row_name();
        let unmade = match table.route_traced(row, context, begun.as_ref(), &mut self.encoder) {
            Ok(routed) => {
                let records = (self.records_of)(routed.as_record());
                if let (Some(tracing), Some(begun)) = (tracing, &begun) {
                    tracing.open(begun);
                }
                self.out.metrics.changes(Change::Insert, 1);
                let outcome = self.out.send(&records, position, now)?;
                for column in table.replaced_columns(row) {
                    report_replaced(self.out.metrics, table.name(), column, position);
                }
                return Ok(outcome);
            }
            Err(source) => {
                let name = || RowName { event_id: table.event_id(row.columns()), ..transaction };
                Unmade::of_row(source, table.name(), name, position).or_refused(&mut self.answers)
            }
        };
        let remains = || Some(table.raw_record(row, &mut self.encoder));
        let outcome = self.out.give_up(unmade, remains, position, now)?;
        if !outcome.is_lack() {
            self.out.metrics.changes(Change::Insert, 1);
        }
        Ok(outcome)
    }

    /// Returns the times of an inserted row for its span.
    fn moment(&self, lsn: Lsn, now: Now) -> RowMoment {
        RowMoment {
            committed_us: self.place.open.map_or(now.unix_us, |open| open.commit_time.unix_us()),
            read_us: now.unix_us,
            operation: if self.place.snapshot == Snapshot::False { "c" } else { "r" },
            lsn: lsn.get(),
            xid: self.place.source_transaction().map(|open| i64::from(open.xid.0)),
        }
    }
}
