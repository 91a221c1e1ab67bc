//! Rows in the stream.

use smallvec::SmallVec;

use crate::wire::{DecodeError, Reader, Shortage};

/// Number of columns stored without an allocation; outbox tables have five to fifteen.
const INLINE_COLUMNS: usize = 16;

/// A column value as received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnValue<'a> {
    /// SQL NULL.
    Null,
    /// A TOASTed value that an UPDATE did not change and PostgreSQL did not send.
    UnchangedToast,
    /// Text form, in the client encoding.
    Text(&'a [u8]),
    /// Binary form, only with the option `binary`.
    Binary(&'a [u8]),
}

/// Columns of one row, in the order of the relation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tuple<'a>(SmallVec<[ColumnValue<'a>; INLINE_COLUMNS]>);

impl<'a> Tuple<'a> {
    /// Returns the columns, in the relation's order.
    #[must_use]
    pub fn columns(&self) -> &[ColumnValue<'a>] {
        &self.0
    }

    /// Returns the column at `index`, or `None` if the row has fewer columns.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<ColumnValue<'a>> {
        self.0.get(index).copied()
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = usize::from(reader.u16()?);
        // Each column takes at least its kind byte, so that a count beyond the body reserves no memory.
        let mut columns = SmallVec::with_capacity(count.min(reader.left()));
        for _ in 0..count {
            columns.push(ColumnValue::read(reader)?);
        }
        Ok(Self(columns))
    }
}

impl<'a> FromIterator<ColumnValue<'a>> for Tuple<'a> {
    fn from_iter<T: IntoIterator<Item = ColumnValue<'a>>>(columns: T) -> Self {
        Self(columns.into_iter().collect())
    }
}

impl<'a> ColumnValue<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let at = reader.clone();
        Ok(match reader.u8()? {
            b'n' => Self::Null,
            b'u' => Self::UnchangedToast,
            b't' => Self::Text(sized(reader)?),
            b'b' => Self::Binary(sized(reader)?),
            other => return Err(at.error(Shortage::UnknownTag(other))),
        })
    }
}

fn sized<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
    let length = reader.length()?;
    reader.bytes(length)
}
