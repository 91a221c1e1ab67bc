use super::record::Record;
use crate::connect::Value;
use crate::connect::converter::ConvertError;
use crate::connect::source_record::DatumHeader;

/// The field, or the header, that tells where a change comes from.
pub(super) const SOURCE: &str = "source";
const OPERATION: &str = "op";

/// Where the metadata of an event come from: `metadata.source`, and the two options that let it count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::connect) struct Metadata {
    /// `header`: what the envelope tells is in headers, and the data are the whole value.
    pub(super) from_headers: bool,
    pub(super) id: Origin,
    pub(super) kind: Origin,
    pub(super) data_name: Origin,
    /// `opentelemetry.tracing.attributes.enable`: the header `traceparent` is an attribute.
    pub(super) traced: bool,
}

/// Where one of them comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::connect) enum Origin {
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
    /// Whether headers are read.
    pub(super) fn reads_headers(self) -> bool {
        self.from_headers || self.traced || [self.id, self.kind, self.data_name].contains(&Origin::Header)
    }

    /// Whether a record is an event: it has the two headers without which there is none.
    pub(super) fn are_in(headers: &[DatumHeader<'_>]) -> bool {
        [SOURCE, OPERATION].iter().all(|name| last(headers, name).is_some())
    }
}

impl<'r, 'v> Event<'r, 'v> {
    /// Where the change comes from.
    pub(super) fn source(self) -> Result<Record<'r, 'v>, ConvertError> {
        match self.metadata.from_headers {
            true => self.header_record(SOURCE),
            false => self.record.record(SOURCE),
        }
    }

    /// What has happened.
    pub(super) fn operation(self) -> Result<String, ConvertError> {
        match self.metadata.from_headers {
            true => self.header_text(OPERATION),
            false => self.record.text(OPERATION),
        }
    }

    /// The transaction's block, if there is one.
    pub(super) fn transaction(self) -> Option<Record<'r, 'v>> {
        const TRANSACTION: &str = "transaction";
        match self.metadata.from_headers {
            true => self.header_record(TRANSACTION).ok(),
            false => self.record.record(TRANSACTION).ok(),
        }
    }

    /// The text of a header, or what is made instead.
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
