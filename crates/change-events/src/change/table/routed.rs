//! EventRouters among other transforms: the rows of an outbox are routed, the rows of other tables are change
//! events.

use super::ChangeTable;
use crate::change::context::ChangeContext;
use crate::change::events::Connector;
use crate::change::row_change::Row;
use crate::outbox::{BindError, EventRouter, InvalidOperation, OutboxSource, RouteError};
use connect_data::column::ColumnDescription;
use connect_data::source_record::{Datum, SourceRecord};
use connect_data::transform::error::TransformError;
use connect_data::transform::is_change_event;
use connect_data::{Kind, Value};
use pg_replication::pgoutput::Relation;

/// The bindings of a table to each EventRouter.
#[derive(Debug)]
pub(in crate::change) struct RoutedTables(Vec<Routed>);

/// The binding of a table to one EventRouter. An error matters only if rows of the table reach the router.
#[derive(Debug)]
struct Routed {
    /// The router's name.
    alias: String,
    table: Result<OutboxSource, BindError>,
}

/// The source of a record: the operation, and the inserted row.
#[derive(Clone, Copy)]
pub(in crate::change) struct Origin<'r, 'a> {
    pub(in crate::change) op: &'static str,
    pub(in crate::change) new: Option<Row<'r, 'a>>,
    pub(in crate::change) now_ms: i64,
    /// True if a record that cannot be made is skipped and the other records of the change are sent.
    pub(in crate::change) tolerates: bool,
}

/// Reason why the transforms fail on a record.
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
    /// Binds the table to each router.
    pub(in crate::change) fn bind(
        connector: &Connector,
        relation: &Relation,
        columns: &[ColumnDescription],
    ) -> Self {
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
    /// Returns the router's reaction to an update of the table's rows, if an EventRouter may receive them.
    pub fn on_update(&self) -> Option<InvalidOperation> {
        let chain = &self.connector.chain;
        if chain.begins_with_routers() {
            let taken = chain.routes_at_once(&self.sample()).and_then(|alias| self.routed.of(alias))?;
            return taken.as_ref().ok().map(OutboxSource::on_update);
        }
        let fitting = |routed: &Routed| routed.table.as_ref().ok().map(OutboxSource::on_update);
        self.routed.0.iter().find_map(fitting)
    }

    /// Returns the EventRouter that receives the rows, as far as it is known before the transforms that
    /// precede it.
    pub fn event_router(&self) -> Option<&EventRouter> {
        let taking = self.connector.chain.routes_at_once(&self.sample())?;
        let mut routers = self.connector.options.routers.iter();
        routers.find(|(alias, _)| alias == taking).map(|(_, router)| router)
    }

    /// Returns the table, unless an EventRouter receives its rows and cannot use them.
    ///
    /// # Errors
    /// The error of the router's binding to the table.
    pub fn fit(self) -> Result<Self, BindError> {
        let taken =
            self.connector.chain.routes_at_once(&self.sample()).and_then(|alias| self.routed.of(alias));
        match taken {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(self),
        }
    }

    /// Applies all transforms to a record.
    pub(in crate::change) fn transformed<'a>(
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

    /// Routes an inserted row. Drops tombstones and other operations; returns a record that is no change
    /// event unchanged.
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

    /// Reports whether the record of an inserted row reaches an EventRouter.
    ///
    /// # Errors
    /// When a transform before the router fails on the row.
    pub fn routes<'a>(&'a self, row: Row<'_, 'a>, at: &ChangeContext) -> Result<bool, RouteError> {
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

    /// Returns a record with the parts that predicates read before the transforms.
    fn sample(&self) -> SourceRecord<'_> {
        let value = Datum { schema: None, value: Value::str("") };
        self.source_record(Value::Null, value, None)
    }
}

/// Reports whether an update of a row that reaches the router stops the relay.
fn is_fatal(table: &Result<OutboxSource, BindError>) -> bool {
    table.as_ref().is_ok_and(|table| table.on_update() == InvalidOperation::Fatal)
}

/// Returns the field `after` of a change event.
fn new_row<'v, 'a>(event: &'v Datum<'a>) -> Option<&'v Value<'a>> {
    let Kind::Struct(fields) = &event.schema.as_deref()?.kind else { return None };
    let position = fields.iter().position(|field| field.name == "after")?;
    match &event.value {
        Value::Struct(values) => values.get(position),
        _ => None,
    }
}
