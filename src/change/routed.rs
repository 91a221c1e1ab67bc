//! EventRouters among other transforms: the rows of an outbox are routed, those of other tables are change events.

use super::context::ChangeContext;
use super::events::Connector;
use super::row_change::Row;
use super::table::ChangeTable;
use crate::connect::column::ColumnDescription;
use crate::connect::source_record::{Datum, SourceRecord};
use crate::connect::transform::error::TransformError;
use crate::connect::transform::is_change_event;
use crate::connect::{Kind, Value};
use crate::outbox::{BindError, EventRouter, InvalidOperation, OutboxSource, RouteError};
use crate::pgoutput::Relation;

/// What each EventRouter makes of the rows of a table.
#[derive(Debug)]
pub(super) struct RoutedTables(Vec<Routed>);

/// What an EventRouter makes of them; the mistakes of a table that it cannot use matter only if it takes its rows.
#[derive(Debug)]
struct Routed {
    /// The router's name.
    alias: String,
    table: Result<OutboxSource, BindError>,
}

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

impl RoutedTables {
    /// Finds the columns that each router wants.
    pub(super) fn bind(connector: &Connector, relation: &Relation, columns: &[ColumnDescription]) -> Self {
        let bind = |(alias, router): &(String, EventRouter)| Routed {
            alias: alias.clone(),
            table: OutboxSource::bind(router, relation, columns),
        };
        Self(connector.options.routers.iter().map(bind).collect())
    }

    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&self, alias: &str) -> Option<&Result<OutboxSource, BindError>> {
        self.0.iter().find(|routed| routed.alias == alias).map(|routed| &routed.table)
    }
}

impl ChangeTable {
    /// What an update of the table's rows does, where an EventRouter may take them.
    pub(crate) fn on_update(&self) -> Option<InvalidOperation> {
        let chain = &self.connector.chain;
        if chain.begins_with_routers() {
            let taken = chain.routes_at_once(&self.sample()).and_then(|alias| self.routed.of(alias))?;
            return taken.as_ref().ok().map(OutboxSource::on_update);
        }
        let fitting = |routed: &Routed| routed.table.as_ref().ok().map(OutboxSource::on_update);
        self.routed.0.iter().find_map(fitting)
    }

    /// The EventRouter that the rows come to, as far as is known before the transforms that stand before it.
    pub(crate) fn event_router(&self) -> Option<&EventRouter> {
        let taking = self.connector.chain.routes_at_once(&self.sample())?;
        let mut routers = self.connector.options.routers.iter();
        routers.find(|(alias, _)| alias == taking).map(|(_, router)| router)
    }

    /// The table, unless its rows come to an EventRouter and it cannot use them.
    ///
    /// # Errors
    /// When that is so.
    pub(crate) fn fit(self) -> Result<Self, BindError> {
        let taken =
            self.connector.chain.routes_at_once(&self.sample()).and_then(|alias| self.routed.of(alias));
        match taken {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(self),
        }
    }

    /// The record behind all transforms.
    pub(super) fn transformed<'a>(
        &'a self,
        record: SourceRecord<'a>,
        origin: Origin<'_, 'a>,
    ) -> Result<Option<SourceRecord<'a>>, RouteError> {
        let chain = &self.connector.chain;
        // Transforms before a router may change the row.
        let sent = (!self.routed.is_empty() && !chain.begins_with_routers()).then(|| record.value.clone());
        let outcome = chain.apply_with(record, &mut |alias, record| {
            let is_changed = sent.as_ref().is_some_and(|sent| new_row(sent) != new_row(&record.value));
            self.route(alias, record, origin, is_changed).map_err(Failed::Route)
        });
        outcome.map_err(|failed| match failed {
            Failed::Transform(source) => RouteError::Transform { table: self.name.clone(), source },
            Failed::Route(error) => error,
        })
    }

    /// What is no change event passes, a tombstone does not.
    fn route<'a>(
        &'a self,
        alias: &str,
        record: SourceRecord<'a>,
        Origin { op, new, now_ms, .. }: Origin<'_, 'a>,
        is_changed: bool,
    ) -> Result<Option<SourceRecord<'a>>, RouteError> {
        let Some(table) = self.routed.of(alias) else { return Ok(Some(record)) };
        if record.value.value.is_null() {
            return Ok(None);
        }
        if !is_change_event(&record.value) {
            return Ok(Some(record));
        }
        match (op, new) {
            ("c" | "r", Some(row)) => {
                let table = table.as_ref().map_err(|error| RouteError::Unfit(Box::new(error.clone())))?;
                table.route(row, is_changed, record, now_ms).map(Some)
            }
            ("u", _) if is_fatal(table) => Err(RouteError::Updated { table: self.name.clone() }),
            _ => Ok(None),
        }
    }

    /// Whether the record of an inserted row comes to an EventRouter.
    ///
    /// # Errors
    /// When a transform before it cannot work on the row.
    pub(crate) fn routes<'a>(&'a self, row: Row<'_, 'a>, at: &ChangeContext) -> Result<bool, RouteError> {
        let mut comes = false;
        if !self.routed.is_empty() {
            let outcome = self.connector.chain.apply_with(self.inserted(row, at)?, &mut |_, _| {
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

/// Whether an update of a row that comes to the router ends the relay.
fn is_fatal(table: &Result<OutboxSource, BindError>) -> bool {
    table.as_ref().is_ok_and(|table| table.on_update() == InvalidOperation::Fatal)
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
