//! Decoded keys and values.

use std::borrow::Cow;

use crate::cli::shell::decoding::{DecodingError, RecordDecoder};
use crate::connect::converter::registered::Side;
use crate::kafka::ScannedRecord;

/// Decoded key and value of a record; the bytes where they cannot be decoded.
#[derive(Debug)]
pub(super) struct Decoded<'r> {
    pub(super) key: Option<Cow<'r, [u8]>>,
    /// Value; none when it is not wanted.
    pub(super) value: Option<Option<Cow<'r, [u8]>>>,
    /// Parts that cannot be decoded, and why.
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
