//! Sources of a cloud event's metadata.

use super::record::Record;
use crate::Value;
use crate::converter::ConvertError;
use crate::source_record::DatumHeader;

/// Name of the field or header with the source of a change.
pub(super) const SOURCE: &str = "source";
const OPERATION: &str = "op";

/// Origin of an event's metadata: `metadata.source`, and the two options that enable parts of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// `header`: the metadata of the envelope is in headers, and the whole value is the data.
    pub(super) from_headers: bool,
    pub(super) id: Origin,
    pub(super) kind: Origin,
    pub(super) data_name: Origin,
    /// `opentelemetry.tracing.attributes.enable`: the header `traceparent` becomes an attribute.
    pub(super) traced: bool,
}

/// Origin of one piece of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Header,
    Generated,
}

/// A record with its headers.
#[derive(Clone, Copy)]
pub(super) struct Event<'r, 'v> {
    pub(super) record: Record<'r, 'v>,
    pub(super) headers: &'r [DatumHeader<'v>],
    pub(super) metadata: Metadata,
}

impl Default for Metadata {
    fn default() -> Self {
        let generated = Origin::Generated;
        Self { from_headers: false, id: generated, kind: generated, data_name: generated, traced: false }
    }
}

impl Metadata {
    /// Reports whether headers are read.
    pub(super) fn reads_headers(self) -> bool {
        self.from_headers || self.traced || [self.id, self.kind, self.data_name].contains(&Origin::Header)
    }

    /// Reports whether the headers include the two that every event requires.
    pub(super) fn are_in(headers: &[DatumHeader<'_>]) -> bool {
        [SOURCE, OPERATION].iter().all(|name| last(headers, name).is_some())
    }
}

impl<'r, 'v> Event<'r, 'v> {
    /// Returns the source block of the change.
    pub(super) fn source(self) -> Result<Record<'r, 'v>, ConvertError> {
        match self.metadata.from_headers {
            true => self.header_record(SOURCE),
            false => self.record.record(SOURCE),
        }
    }

    /// Returns the code of the operation.
    pub(super) fn operation(self) -> Result<String, ConvertError> {
        match self.metadata.from_headers {
            true => self.header_text(OPERATION),
            false => self.record.text(OPERATION),
        }
    }

    /// Returns the transaction block, if there is one.
    pub(super) fn transaction(self) -> Option<Record<'r, 'v>> {
        const TRANSACTION: &str = "transaction";
        match self.metadata.from_headers {
            true => self.header_record(TRANSACTION).ok(),
            false => self.record.record(TRANSACTION).ok(),
        }
    }

    /// Returns the text of a header, or the generated text, depending on `origin`.
    pub(super) fn header_or(
        self,
        origin: Origin,
        name: &str,
        made: impl FnOnce() -> Result<String, ConvertError>,
    ) -> Result<String, ConvertError> {
        match origin {
            Origin::Header => self.header_text(name),
            Origin::Generated => made(),
        }
    }

    pub(super) fn header_text(self, name: &str) -> Result<String, ConvertError> {
        match last(self.headers, name).map(|header| &header.datum.value) {
            Some(Value::Str(text)) => Ok(text.to_string()),
            _ => Err(ConvertError::NoCloudEventHeader(name.to_owned())),
        }
    }

    fn header_record(self, name: &str) -> Result<Record<'r, 'v>, ConvertError> {
        let header = last(self.headers, name);
        let found =
            header.and_then(|header| Record::of(header.datum.schema.as_deref()?, &header.datum.value));
        found.ok_or_else(|| ConvertError::NoCloudEventHeader(name.to_owned()))
    }
}

fn last<'h, 'v>(headers: &'h [DatumHeader<'v>], name: &str) -> Option<&'h DatumHeader<'v>> {
    headers.iter().rev().find(|header| header.name == name)
}
