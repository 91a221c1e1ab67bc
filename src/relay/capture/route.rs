//! The form of the records: events of an outbox, or change events, and the binding of a table to it.

use crate::change::{ChangeEvents, ChangeTable};
use crate::connect::Heartbeat;
use crate::connect::column::ColumnDescription;
use crate::outbox::{BindError, EventRouter, OutboxTable};
use crate::pgoutput::Relation;

/// Conversion from rows to records.
#[derive(Debug, Clone)]
pub(crate) enum Route {
    /// Events of an outbox.
    Outbox(EventRouter),
    /// Change events of any table.
    Changes(ChangeEvents),
}

/// A captured table that is ready.
#[derive(Debug)]
pub(crate) enum Bound {
    /// Inserts become events.
    Outbox(Box<OutboxTable>),
    /// Each change becomes an event.
    Changes(Box<ChangeTable>),
}

impl Bound {
    /// Returns the assumptions about it, one line each.
    pub(crate) fn notes(&self) -> Vec<String> {
        match self {
            Self::Outbox(table) => {
                let assumptions = table.assumptions().iter().map(ToString::to_string);
                assumptions.chain(table.unmasked().iter().map(ToString::to_string)).collect()
            }
            Self::Changes(table) => table.notes().to_vec(),
        }
    }

    /// Returns those of the notes that name a column in snake case, which is used because the default is absent.
    pub(crate) fn twins(&self) -> Vec<String> {
        match self {
            Self::Outbox(table) => table.assumptions().iter().map(ToString::to_string).collect(),
            Self::Changes(_) => Vec::new(),
        }
    }

    /// Returns the EventRouter that applies to some of the rows, among other transforms.
    pub(crate) fn event_router(&self) -> Option<&EventRouter> {
        match self {
            Self::Outbox(_) => None,
            Self::Changes(table) => table.event_router(),
        }
    }

    /// Returns the table, with its schema.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Outbox(table) => table.name(),
            Self::Changes(table) => table.name(),
        }
    }
}

impl Route {
    /// Makes a table ready.
    ///
    /// # Errors
    /// When the EventRouter cannot use it.
    pub(crate) fn bind(
        &self,
        relation: &Relation,
        columns: &[ColumnDescription],
    ) -> Result<Bound, BindError> {
        match self {
            Self::Outbox(router) => {
                router.bind(relation, columns).map(|bound| Bound::Outbox(Box::new(bound)))
            }
            Self::Changes(changes) => Ok(Bound::Changes(Box::new(changes.bind(relation, columns).fit()?))),
        }
    }

    /// Returns whether rows of a table become records: the EventRouter's predicate may exclude some.
    pub(crate) fn acts_on(&self, schema: &str, table: &str) -> bool {
        self.outbox().is_none_or(|router| router.acts_on(schema, table))
    }

    /// Returns whether a table with these columns can be captured, judged by their names.
    pub(crate) fn fits(&self, columns: &[String]) -> bool {
        self.outbox().is_none_or(|router| router.fits(columns))
    }

    /// Returns the columns that a table with these columns lacks, each with the option that names it.
    pub(crate) fn missing(&self, columns: &[String]) -> Vec<(&'static str, &str)> {
        self.outbox().map_or_else(Vec::new, |router| router.missing(columns))
    }

    /// Returns the columns that a table must have, each with the option that names it.
    pub(crate) fn required_columns(&self) -> Vec<(&'static str, &str)> {
        self.outbox().map_or_else(Vec::new, EventRouter::required_columns)
    }

    /// Returns the connector's heartbeat for `topic`.
    pub(crate) fn heartbeat(&self, topic: String) -> Heartbeat {
        match self {
            Self::Outbox(router) => router.heartbeat(topic),
            Self::Changes(changes) => changes.heartbeat(topic),
        }
    }

    /// Returns the converter of change events, if transaction metadata is enabled.
    pub(crate) fn tells_transactions(&self) -> Option<&ChangeEvents> {
        match self {
            Self::Changes(changes) if changes.tells_transactions() => Some(changes),
            _ => None,
        }
    }

    /// Returns the converter of change events, if rows become change events.
    pub(crate) const fn changes(&self) -> Option<&ChangeEvents> {
        match self {
            Self::Outbox(_) => None,
            Self::Changes(changes) => Some(changes),
        }
    }

    /// Returns the EventRouter, if rows are events of an outbox.
    pub(crate) const fn outbox(&self) -> Option<&EventRouter> {
        match self {
            Self::Outbox(router) => Some(router),
            Self::Changes(_) => None,
        }
    }
}
