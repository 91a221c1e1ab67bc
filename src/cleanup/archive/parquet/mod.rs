//! A segment of rows as a Parquet file. A Parquet file can be read only when its end is written, and its rows are stored by columns, so it is made of
//! a segment that nothing is added to any more.

mod group;
mod rows;
mod value;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;

use super::column::Column;
use super::convert::{ConvertError, Step};
use super::segment::Segment;
use group::Group;
use rows::Rows;
pub(super) use rows::{Survey, survey};

/// Metadata key with the segment that a file was made of.
const DIGEST: &str = "outboxd.segment.sha256";
const TABLE: &str = "outboxd.table";

/// Writes the rows of a segment. `on` may end it after each.
pub(super) fn write(
    segment: &Segment,
    survey: &Survey,
    file: &File,
    on: &mut dyn FnMut(Step) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    let (schema, properties) = (schema(&survey.columns)?, properties(segment, survey));
    let mut file = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
    let mut rows = Rows::of(segment.path())?;
    let mut group = Group::of(&survey.columns);
    while let Some(row) = rows.next()? {
        let cells = row.cells(&survey.columns)?;
        group.push(cells.into_iter(), row.bytes).ok_or(ConvertError::Line(row.number))?;
        if group.is_full() {
            group.write(&mut file)?;
        }
        on(Step::Row)?;
    }
    if !group.is_empty() {
        group.write(&mut file)?;
    }
    file.close()?;
    Ok(())
}

/// Returns the digest of the segment that a file was made of, if it has one.
pub(super) fn digest(path: &Path) -> Option<String> {
    let reader = SerializedFileReader::new(File::open(path).ok()?).ok()?;
    let said = reader.metadata().file_metadata().key_value_metadata()?.iter();
    said.clone().find(|said| said.key == DIGEST)?.value.clone()
}

fn schema(columns: &[Column]) -> Result<Type, ParquetError> {
    let fields = columns.iter().map(|column| value::field(column).map(Arc::new));
    Type::group_type_builder("row").with_fields(fields.collect::<Result<_, _>>()?).build()
}

fn properties(segment: &Segment, survey: &Survey) -> WriterProperties {
    let said = [(DIGEST, survey.digest.clone()), (TABLE, segment.table().to_owned())];
    let said = said.map(|(key, value)| KeyValue::new(key.to_owned(), value));
    WriterProperties::builder()
        .set_created_by(concat!("outboxd ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_key_value_metadata(Some(said.into()))
        .build()
}

#[cfg(test)]
mod tests;
