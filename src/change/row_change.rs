//! What pgoutput says of a row.

use crate::pgoutput::{ColumnValue, OldTuple};

/// What has happened to a row, or to a whole table.
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

/// What an update or a delete carries of the old row.
#[derive(Debug, Clone, Copy)]
pub struct OldRow<'r, 'a> {
    /// What is not in the replica identity is NULL.
    row: Row<'r, 'a>,
}

impl<'r, 'a> OldRow<'r, 'a> {
    /// The values, in the relation's order.
    pub(crate) const fn columns(self) -> Row<'r, 'a> {
        self.row
    }
}

impl<'r, 'a> From<&'r OldTuple<'a>> for OldRow<'r, 'a> {
    fn from(old: &'r OldTuple<'a>) -> Self {
        let (OldTuple::Key(row) | OldTuple::Full(row)) = old;
        Self { row: row.columns() }
    }
}
