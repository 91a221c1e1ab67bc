//! Rows of a segment.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;

use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};

use super::value::Value;
use crate::cleanup::archive::column::{Column, Kind};
use crate::cleanup::archive::convert::{ConvertError, Step};
use crate::cleanup::archive::segment::Segment;

/// Result of reading a whole segment.
#[derive(Debug)]
pub(in crate::cleanup::archive) struct Survey {
    /// Columns in which each value fits: one with a value that does not, such as an infinite time, is one of
    /// texts.
    pub(in crate::cleanup::archive) columns: Vec<Column>,
    /// The SHA-256 of the segment.
    pub(in crate::cleanup::archive) digest: String,
    pub(in crate::cleanup::archive) rows: u64,
}

/// Reads through a segment.
pub(in crate::cleanup::archive) fn survey(
    segment: &Segment,
    on: &mut dyn FnMut(Step) -> Result<(), ConvertError>,
) -> Result<Survey, ConvertError> {
    let mut columns = segment.columns().to_vec();
    let mut digest = Sha256::new();
    let mut rows = Rows::of(segment.path())?;
    let mut count: u64 = 0;
    digest.update(&rows.line);
    while let Some(row) = rows.next()? {
        digest.update(row.line);
        let cells = row.cells(&columns)?;
        let kinds: Vec<_> = columns.iter().zip(cells).map(|(column, cell)| kind(column, cell)).collect();
        for (column, (kind, nullable)) in columns.iter_mut().zip(kinds) {
            (column.kind, column.nullable) = (kind, nullable);
        }
        count = count.saturating_add(1);
        on(Step::Row)?;
    }
    let digest = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Survey { columns, digest, rows: count })
}

/// Returns the kind of a column with this value in it. One that is NOT NULL may have nulls where the
/// constraint is not validated.
fn kind(column: &Column, cell: Option<&str>) -> (Kind, bool) {
    let Some(text) = cell else { return (column.kind, true) };
    let fits = column.kind == Kind::Text || Value::parse(column.kind, text).is_some();
    (if fits { column.kind } else { Kind::Text }, column.nullable)
}

/// The lines of a segment behind the first.
pub(super) struct Rows {
    reader: BufReader<File>,
    line: Vec<u8>,
    number: u64,
}

/// One of them.
pub(super) struct Row<'r> {
    line: &'r [u8],
    cells: Map<String, Json>,
    pub(super) bytes: usize,
    pub(super) number: u64,
}

impl Rows {
    /// Opens a segment and reads its first line.
    pub(super) fn of(segment: &Path) -> io::Result<Self> {
        let mut rows = Self { reader: BufReader::new(File::open(segment)?), line: Vec::new(), number: 0 };
        rows.read()?;
        Ok(rows)
    }

    fn read(&mut self) -> io::Result<bool> {
        self.line.clear();
        self.number = self.number.saturating_add(1);
        Ok(self.reader.read_until(b'\n', &mut self.line)? > 0)
    }

    pub(super) fn next(&mut self) -> Result<Option<Row<'_>>, ConvertError> {
        if !self.read()? {
            return Ok(None);
        }
        let (line, number) = (self.line.as_slice(), self.number);
        let cells = serde_json::from_slice(line).map_err(|_| ConvertError::Line(number))?;
        Ok(Some(Row { line, cells, bytes: line.len(), number }))
    }
}

impl Row<'_> {
    /// Returns its values, in the order of the columns. It has all of them and no others.
    pub(super) fn cells(&self, columns: &[Column]) -> Result<Vec<Option<&str>>, ConvertError> {
        let cell = |column: &Column| match self.cells.get(&column.name) {
            Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text.as_str())),
            _ => Err(ConvertError::Line(self.number)),
        };
        if self.cells.len() != columns.len() {
            return Err(ConvertError::Line(self.number));
        }
        columns.iter().map(cell).collect()
    }
}
