use super::{Again, Feed, Outcome};
use crate::change::RowChange;
use crate::connect::converter::ConvertError;
use crate::kafka::Transport;
use crate::outbox::{RouteContext, RouteError};
use crate::pgoutput::{Tuple, UnknownRelation};
use crate::relay::clock::Now;
use crate::relay::error::Error;
use crate::relay::needs::Need;
use crate::relay::route::Bound;
use crate::relay::table::Table;
use crate::telemetry::Change;
use crate::wal::{Lsn, Oid};

impl<T: Transport> Feed<'_, T> {
    /// Takes an inserted row.
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
        let again = self.again.take();
        let is_new = again.is_none();
        let Again { position, refused } = again.map_or_else(|| self.next_event(), Ok)?;
        let sent_before = is_new && self.was_sent_before(lsn);
        let table = match self.tables.get(&relation).ok_or(UnknownRelation(relation))? {
            Table::Captured(Bound::Outbox(table)) => table,
            Table::Captured(Bound::Changes(_)) => {
                let again = Again { position, refused };
                return self.change(
                    &[relation],
                    RowChange::Insert(row.columns()),
                    (lsn, again, is_new, sent_before),
                    now,
                );
            }
            Table::NotCaptured(rows) => {
                rows.count();
                return Ok(Outcome::None);
            }
        };
        if is_new {
            self.metrics.changes(Change::Insert, 1);
        }
        let in_kafka = self.flight.has(position.end_of_event())?.then_some("committed");
        if let Some(reason) = in_kafka.or(self.skip_reason(sent_before)) {
            self.metrics.skipped(reason, 1);
            self.passed.count(self.metrics, relation, table.name(), reason);
            return Ok(Outcome::None);
        }
        let context = RouteContext { now_ms: now.unix_ms() };
        let taken = match refused {
            Some(error) => Err(error),
            None => match table.route(row, context, &mut self.encoder) {
                Ok(routed) => {
                    let records = (self.records_of)(routed.as_record());
                    Ok(self.dispatch.send(&mut self.flight, &records, position, now)?)
                }
                Err(RouteError::Convert { source: ConvertError::Unregistered(registration), .. }) => {
                    self.again = Some(Again { position, refused: None });
                    return Ok(Outcome::TakeAgain(Need::Schema(registration)));
                }
                Err(source) => {
                    let table = table.name().to_owned();
                    Err(Error::Row { table, position, source: Box::new(source) })
                }
            },
        };
        let need = match taken {
            Ok(need) => need,
            Err(error) => {
                let remains = self.dead_letters.map(|_| table.raw_record(row, &mut self.encoder));
                return self.give_up(error, remains, position, now);
            }
        };
        for column in table.replaced_columns(row) {
            self.tell_replaced(table.name(), column, position);
        }
        Ok(need.map_or(Outcome::None, Outcome::Await))
    }
}
