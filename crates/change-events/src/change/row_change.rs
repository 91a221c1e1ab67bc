//! The content of a row change in pgoutput.

use pg_replication::pgoutput::{ColumnValue, OldTuple};

/// A change of a row, or of a whole table.
#[derive(Debug, Clone, Copy)]
pub enum RowChange<'r, 'a> {
    /// `c`, and `r` for a row of a snapshot.
    Insert(Row<'r, 'a>),
    /// `u`
    Update(Option<OldRow<'r, 'a>>, Row<'r, 'a>),
    /// `d`
    Delete(OldRow<'r, 'a>),
    /// `t`
    Truncate,
}

/// The values of a row, in the relation's order.
pub(super) type Row<'r, 'a> = &'r [ColumnValue<'a>];

/// The old row of an update or a delete.
#[derive(Debug, Clone, Copy)]
pub struct OldRow<'r, 'a> {
    /// Columns outside the replica identity are NULL.
    row: Row<'r, 'a>,
}

impl<'r, 'a> OldRow<'r, 'a> {
    /// Returns the values, in the relation's order.
    pub const fn columns(self) -> Row<'r, 'a> {
        self.row
    }
}

impl<'r, 'a> From<&'r OldTuple<'a>> for OldRow<'r, 'a> {
    fn from(old: &'r OldTuple<'a>) -> Self {
        let (OldTuple::Key(row) | OldTuple::Full(row)) = old;
        Self { row: row.columns() }
    }
}
