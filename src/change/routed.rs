//! An EventRouter among other transforms: the rows of an outbox are routed, those of other tables are change events.

use super::context::ChangeContext;
use super::events::Connector;
use super::row_change::Row;
use super::table::ChangeTable;
use crate::connect::column::ColumnDescription;
use crate::connect::source_record::{Datum, SourceRecord};
use crate::connect::transform::error::{Problem, TransformError};
use crate::connect::transform::is_change_event;
use crate::connect::{Kind, Value};
use crate::outbox::{BindError, InvalidOperation, OutboxSource, RouteError};
use crate::pgoutput::Relation;

/// What an EventRouter makes of the rows of a table; the mistakes of one that it cannot use matter only if it takes its rows.
#[derive(Debug)]
pub(super) struct Routed(Result<OutboxSource, BindError>);

/// What a record is of: the operation, and the row that was inserted.
#[derive(Clone, Copy)]
pub(super) struct Origin<'r, 'a> {
    pub(super) op: &'static str,
    pub(super) new: Option<Row<'r, 'a>>,
    pub(super) now_ms: i64,
    /// Whether a record that cannot be made is left out, and the others of the change are sent.
    pub(super) tolerates: bool,
}

/// Why a record does not come through the transforms.
enum Failed {
    Transform(TransformError),
    Route(RouteError),
}

impl From<TransformError> for Failed {
    fn from(error: TransformError) -> Self {
        Self::Transform(error)
    }
}

impl Routed {
    /// None without an EventRouter.
    pub(super) fn bind(
        connector: &Connector,
        relation: &Relation,
        columns: &[ColumnDescription],
    ) -> Option<Self> {
        let router = connector.options.router.as_ref()?;
        Some(Self(OutboxSource::bind(router, relation, columns)))
    }
}

impl ChangeTable {
    /// What an update of the table's rows does, where an EventRouter may take them.
    pub(crate) fn on_update(&self) -> Option<InvalidOperation> {
        let Routed(table) = self.routed.as_ref()?;
        table.as_ref().ok().map(OutboxSource::on_update)
    }

    /// The table, unless its rows come to the EventRouter and it cannot use them.
    ///
    /// # Errors
    /// When that is so.
    pub(crate) fn fit(mut self) -> Result<Self, BindError> {
        let takes = self.connector.chain.routes_at_once(&self.sample());
        match self.routed {
            Some(Routed(Err(error))) if takes => Err(error),
            routed => {
                self.routed = routed;
                Ok(self)
            }
        }
    }

    /// The record behind all transforms.
    pub(super) fn transformed<'a>(
        &'a self,
        record: SourceRecord<'a>,
        origin: Origin<'_, 'a>,
    ) -> Result<Option<SourceRecord<'a>>, RouteError> {
        let chain = &self.connector.chain;
        // Transforms before the router may change the row.
        let sent = (self.routed.is_some() && !chain.begins_with_router()).then(|| record.value.clone());
        let outcome = chain.apply_with(record, &mut |record| {
            // What is no change event any more passes the router.
            if is_change_event(&record.value)
                && sent.as_ref().is_some_and(|sent| new_row(sent) != new_row(&record.value))
                && let Some(refused) = chain.refused_by_router(Problem::ChangedRow)
            {
                return Err(Failed::Transform(refused));
            }
            self.route(record, origin).map_err(Failed::Route)
        });
        outcome.map_err(|failed| match failed {
            Failed::Transform(source) => RouteError::Transform { table: self.name.clone(), source },
            Failed::Route(error) => error,
        })
    }

    /// What is no change event passes, a tombstone does not.
    fn route<'a>(
        &'a self,
        record: SourceRecord<'a>,
        Origin { op, new, now_ms, .. }: Origin<'_, 'a>,
    ) -> Result<Option<SourceRecord<'a>>, RouteError> {
        let Some(Routed(table)) = &self.routed else { return Ok(Some(record)) };
        if record.value.value.is_null() {
            return Ok(None);
        }
        if !is_change_event(&record.value) {
            return Ok(Some(record));
        }
        match (op, new) {
            ("c" | "r", Some(row)) => {
                let table = table.as_ref().map_err(|error| RouteError::Unfit(Box::new(error.clone())))?;
                table.route(row, record, now_ms).map(Some)
            }
            ("u", _) if self.on_update() == Some(InvalidOperation::Fatal) => {
                Err(RouteError::Updated { table: self.name.clone() })
            }
            _ => Ok(None),
        }
    }

    /// Whether the record of an inserted row comes to the EventRouter.
    ///
    /// # Errors
    /// When a transform before it cannot work on the row.
    pub(crate) fn routes<'a>(&'a self, row: Row<'_, 'a>, at: &ChangeContext) -> Result<bool, RouteError> {
        let mut comes = false;
        if self.routed.is_some() {
            let outcome = self.connector.chain.apply_with(self.inserted(row, at)?, &mut |_| {
                comes = true;
                Ok::<_, TransformError>(None)
            });
            outcome.map_err(|source| RouteError::Transform { table: self.name.clone(), source })?;
        }
        Ok(comes)
    }

    /// A record as it comes to the transforms, as far as predicates look at it.
    fn sample(&self) -> SourceRecord<'_> {
        let value = Datum { schema: None, value: Value::str("") };
        self.source_record(Value::Null, value, None)
    }
}

/// The row behind a change.
fn new_row<'v, 'a>(event: &'v Datum<'a>) -> Option<&'v Value<'a>> {
    let Kind::Struct(fields) = &event.schema.as_deref()?.kind else { return None };
    let position = fields.iter().position(|field| field.name == "after")?;
    match &event.value {
        Value::Struct(values) => values.get(position),
        _ => None,
    }
}
