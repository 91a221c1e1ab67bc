use std::borrow::Cow;

use crate::cli::decoding::{DecodingError, RecordDecoder};
use crate::connect::converter::registered::Side;
use crate::kafka::ScannedRecord;

/// What the key and the value of a record say; as they are where nobody can tell.
#[derive(Debug)]
pub(super) struct Decoded<'r> {
    pub(super) key: Option<Cow<'r, [u8]>>,
    /// None when it is not asked for.
    pub(super) value: Option<Option<Cow<'r, [u8]>>>,
    /// Which of them cannot be read, and why.
    pub(super) unreadable: Vec<(&'static str, String)>,
}

impl<'r> Decoded<'r> {
    pub(super) fn of(
        record: &'r ScannedRecord<'_>,
        with_value: bool,
        decoder: &mut RecordDecoder,
    ) -> Result<Self, DecodingError> {
        let mut unreadable = Vec::new();
        let mut part = |side, name, bytes: Option<&'r [u8]>| -> Result<_, DecodingError> {
            let Some(bytes) = bytes else { return Ok(None) };
            decoder.known(side, bytes, |why| unreadable.push((name, why))).map(Some)
        };
        let key = part(Side::Key, "key", record.key())?;
        let value = if with_value { Some(part(Side::Value, "value", record.value())?) } else { None };
        Ok(Self { key, value, unreadable })
    }
}
