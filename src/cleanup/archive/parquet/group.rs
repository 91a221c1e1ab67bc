//! Row groups of a Parquet file.

use std::fs::File;

use ::parquet::basic::Type as Physical;
use ::parquet::column::writer::ColumnWriter;
use ::parquet::data_type::{ByteArray, FixedLenByteArray};
use ::parquet::errors::ParquetError;
use ::parquet::file::writer::SerializedFileWriter;

use super::value::{Value, physical};
use crate::cleanup::archive::column::Column;

/// Bytes of lines at which a row group is written; it also has a limit of rows. One row may be greater.
const GROUP_BYTES: usize = 16 << 20;
const GROUP_ROWS: usize = 100_000;

/// Rows that are not in the file yet, by columns: a file has them one after the other.
pub(super) struct Group {
    columns: Vec<Cells>,
    rows: usize,
    bytes: usize,
}

/// The values of a column.
struct Cells {
    column: Column,
    values: Values,
    /// Level of each row, 1 if it has a value.
    levels: Vec<i16>,
}

enum Values {
    Bool(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Vec<ByteArray>),
    Fixed(Vec<FixedLenByteArray>),
}

impl Group {
    pub(super) fn of(columns: &[Column]) -> Self {
        let columns = columns.iter().map(Cells::of).collect();
        Self { columns, rows: 0, bytes: 0 }
    }

    /// Adds a row whose line has this number of bytes. Returns none when a value does not fit.
    pub(super) fn push<'r>(
        &mut self,
        cells: impl Iterator<Item = Option<&'r str>>,
        bytes: usize,
    ) -> Option<()> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.push(cell)?;
        }
        self.rows = self.rows.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        Some(())
    }

    pub(super) const fn is_full(&self) -> bool {
        self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Writes the rows, and has none then.
    pub(super) fn write(&mut self, file: &mut SerializedFileWriter<&File>) -> Result<(), ParquetError> {
        let mut group = file.next_row_group()?;
        for cells in &mut self.columns {
            let mut column = group.next_column()?.ok_or_else(mismatch)?;
            cells.write(column.untyped())?;
            column.close()?;
        }
        group.close()?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }
}

impl Cells {
    fn of(column: &Column) -> Self {
        Self { column: column.clone(), values: Values::of(physical(column.kind)), levels: Vec::new() }
    }

    fn push(&mut self, cell: Option<&str>) -> Option<()> {
        self.levels.push(cell.is_some().into());
        match cell {
            Some(text) => self.values.push(Value::parse(self.column.kind, text)?),
            None => self.column.nullable.then_some(()),
        }
    }

    fn write(&mut self, writer: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = self.column.nullable.then_some(self.levels.as_slice());
        match (writer, &self.values) {
            (ColumnWriter::BoolColumnWriter(to), Values::Bool(all)) => to.write_batch(all, levels, None),
            (ColumnWriter::Int32ColumnWriter(to), Values::Int32(all)) => to.write_batch(all, levels, None),
            (ColumnWriter::Int64ColumnWriter(to), Values::Int64(all)) => to.write_batch(all, levels, None),
            (ColumnWriter::FloatColumnWriter(to), Values::Float(all)) => to.write_batch(all, levels, None),
            (ColumnWriter::DoubleColumnWriter(to), Values::Double(all)) => to.write_batch(all, levels, None),
            (ColumnWriter::ByteArrayColumnWriter(to), Values::Bytes(all)) => {
                to.write_batch(all, levels, None)
            }
            (ColumnWriter::FixedLenByteArrayColumnWriter(to), Values::Fixed(all)) => {
                to.write_batch(all, levels, None)
            }
            _ => return Err(mismatch()),
        }?;
        self.levels.clear();
        self.values = Values::of(physical(self.column.kind));
        Ok(())
    }
}

impl Values {
    const fn of(physical: Physical) -> Self {
        match physical {
            Physical::BOOLEAN => Self::Bool(Vec::new()),
            Physical::INT32 => Self::Int32(Vec::new()),
            Physical::INT64 => Self::Int64(Vec::new()),
            Physical::FLOAT => Self::Float(Vec::new()),
            Physical::DOUBLE => Self::Double(Vec::new()),
            Physical::FIXED_LEN_BYTE_ARRAY => Self::Fixed(Vec::new()),
            Physical::BYTE_ARRAY | Physical::INT96 => Self::Bytes(Vec::new()),
        }
    }

    fn push(&mut self, value: Value) -> Option<()> {
        match (self, value) {
            (Self::Bool(all), Value::Bool(value)) => all.push(value),
            (Self::Int32(all), Value::Int32(value)) => all.push(value),
            (Self::Int64(all), Value::Int64(value)) => all.push(value),
            (Self::Float(all), Value::Float(value)) => all.push(value),
            (Self::Double(all), Value::Double(value)) => all.push(value),
            (Self::Bytes(all), Value::Bytes(value)) => all.push(value),
            (Self::Fixed(all), Value::Fixed(value)) => all.push(value),
            _ => return None,
        }
        Some(())
    }
}

fn mismatch() -> ParquetError {
    ParquetError::General("a column does not have the type in its schema".to_owned())
}
