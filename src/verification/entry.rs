//! Entries on disk.

use bytes::{Buf, BufMut, TryGetError};

use super::digest::{Contents, Identity};

/// A topic, by its place in the list of topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TopicNumber(pub u32);

/// Bytes of a text that are stored.
const TEXT_BYTES_MAX: usize = 300;

/// Something that can be written to disk and read back.
pub(crate) trait Entry: Sized {
    /// Returns the identity by which entries are brought together.
    fn identity(&self) -> Identity;

    /// Appends its bytes.
    fn write(&self, out: &mut Vec<u8>);

    /// Parses one from the front of `bytes`.
    ///
    /// # Errors
    /// When they are not what [`Self::write`] has written.
    fn read(bytes: &mut &[u8]) -> Result<Self, MalformedEntry>;
}

/// Bytes that are no entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what was read back is not what was written")]
pub(crate) struct MalformedEntry;

impl From<TryGetError> for MalformedEntry {
    fn from(_: TryGetError) -> Self {
        Self
    }
}

/// Name of a row: what a person needs to find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowName {
    /// The captured table, by its place in the list of tables.
    pub table: u32,
    /// The oid of the table that it lies in: a partition, or the table itself.
    pub lies_in: u32,
    /// Its `ctid`: block and number.
    pub place: (u32, u16),
    /// The event's id, as far as it is text.
    pub id: Option<String>,
}

impl RowName {
    /// Returns its place.
    #[must_use]
    pub(crate) const fn at(&self) -> RowPlace {
        RowPlace { lies_in: self.lies_in, place: self.place }
    }
}

/// Place of a row: nothing else distinguishes rows with one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RowPlace {
    lies_in: u32,
    place: (u32, u16),
}

/// Place of an event's record in its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    /// In any partition: there is no key.
    Any,
    /// In the partition of the key with this hash.
    Hashed(u32),
    /// In this partition, according to a column.
    Decided(i32),
}

/// Expected record of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Identity by which its record is found.
    pub identity: Identity,
    /// Contents of the record.
    pub contents: Contents,
    /// The topic.
    pub topic: TopicNumber,
    /// The partition.
    pub spot: Spot,
    /// The record's timestamp in milliseconds since 1970, when a column decides it.
    pub timestamp_ms: Option<i64>,
    /// Time at which the row was written, in milliseconds since 1970, as far as that is known.
    pub written_ms: Option<i64>,
    /// Rows of a key come in the order of this.
    pub order: Option<i64>,
    /// Reason why it makes no record.
    pub refusal: Option<String>,
    /// The row.
    pub row: RowName,
}

/// A record that is in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Identity by which its row is found.
    pub identity: Identity,
    /// Its contents.
    pub contents: Contents,
    /// The topic.
    pub topic: TopicNumber,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// Its timestamp in milliseconds since 1970; none when the broker has set its own.
    pub timestamp_ms: Option<i64>,
    /// True if a record with a later position is before it in its partition.
    pub behind: bool,
    /// True if it is a dead letter that was too large and went without its value.
    pub without_value: bool,
}

/// Row in the order of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrderEntry {
    /// Identity of the key.
    pub key: Identity,
    /// The topic.
    pub topic: TopicNumber,
    /// Place of its first record; none when compaction may have deleted it.
    pub record: Option<(i32, i64)>,
    /// Records of a key come in the order of this.
    pub order: i64,
    /// The row.
    pub row: RowName,
}

impl Spot {
    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Any => out.put_u8(0),
            Self::Hashed(hash) => {
                out.put_u8(1);
                out.put_u32_le(hash);
            }
            Self::Decided(partition) => {
                out.put_u8(2);
                out.put_i32_le(partition);
            }
        }
    }

    pub(super) fn read(bytes: &mut &[u8]) -> Result<Self, MalformedEntry> {
        match bytes.try_get_u8()? {
            0 => Ok(Self::Any),
            1 => Ok(Self::Hashed(bytes.try_get_u32_le()?)),
            2 => Ok(Self::Decided(bytes.try_get_i32_le()?)),
            _ => Err(MalformedEntry),
        }
    }
}

impl Entry for Expected {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.identity.0);
        put_contents(out, self.contents);
        out.put_u32_le(self.topic.0);
        self.spot.write(out);
        for number in [self.timestamp_ms, self.written_ms, self.order] {
            put_number(out, number);
        }
        put_text(out, self.refusal.as_deref());
        put_row(out, &self.row);
    }

    fn read(bytes: &mut &[u8]) -> Result<Self, MalformedEntry> {
        Ok(Self {
            identity: Identity(bytes.try_get_u64_le()?),
            contents: get_contents(bytes)?,
            topic: TopicNumber(bytes.try_get_u32_le()?),
            spot: Spot::read(bytes)?,
            timestamp_ms: get_number(bytes)?,
            written_ms: get_number(bytes)?,
            order: get_number(bytes)?,
            refusal: get_text(bytes)?,
            row: get_row(bytes)?,
        })
    }
}

impl Entry for Found {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.identity.0);
        put_contents(out, self.contents);
        out.put_u32_le(self.topic.0);
        out.put_i32_le(self.partition);
        out.put_i64_le(self.offset);
        put_number(out, self.timestamp_ms);
        out.put_u8(u8::from(self.behind));
        out.put_u8(u8::from(self.without_value));
    }

    fn read(bytes: &mut &[u8]) -> Result<Self, MalformedEntry> {
        Ok(Self {
            identity: Identity(bytes.try_get_u64_le()?),
            contents: get_contents(bytes)?,
            topic: TopicNumber(bytes.try_get_u32_le()?),
            partition: bytes.try_get_i32_le()?,
            offset: bytes.try_get_i64_le()?,
            timestamp_ms: get_number(bytes)?,
            behind: bytes.try_get_u8()? != 0,
            without_value: bytes.try_get_u8()? != 0,
        })
    }
}

impl Entry for OrderEntry {
    fn identity(&self) -> Identity {
        self.key
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.key.0);
        out.put_u32_le(self.topic.0);
        out.put_u8(u8::from(self.record.is_some()));
        if let Some((partition, offset)) = self.record {
            out.put_i32_le(partition);
            out.put_i64_le(offset);
        }
        out.put_i64_le(self.order);
        put_row(out, &self.row);
    }

    fn read(bytes: &mut &[u8]) -> Result<Self, MalformedEntry> {
        Ok(Self {
            key: Identity(bytes.try_get_u64_le()?),
            topic: TopicNumber(bytes.try_get_u32_le()?),
            record: match bytes.try_get_u8()? {
                0 => None,
                _ => Some((bytes.try_get_i32_le()?, bytes.try_get_i64_le()?)),
            },
            order: bytes.try_get_i64_le()?,
            row: get_row(bytes)?,
        })
    }
}

fn put_contents(out: &mut Vec<u8>, contents: Contents) {
    for digest in [contents.key, contents.value, contents.headers] {
        out.put_u64_le(digest);
    }
}

fn get_contents(bytes: &mut &[u8]) -> Result<Contents, MalformedEntry> {
    Ok(Contents {
        key: bytes.try_get_u64_le()?,
        value: bytes.try_get_u64_le()?,
        headers: bytes.try_get_u64_le()?,
    })
}

pub(super) fn put_number(out: &mut Vec<u8>, number: Option<i64>) {
    out.put_u8(u8::from(number.is_some()));
    if let Some(number) = number {
        out.put_i64_le(number);
    }
}

pub(super) fn get_number(bytes: &mut &[u8]) -> Result<Option<i64>, MalformedEntry> {
    Ok(if bytes.try_get_u8()? == 0 { None } else { Some(bytes.try_get_i64_le()?) })
}

pub(super) fn put_row(out: &mut Vec<u8>, row: &RowName) {
    out.put_u32_le(row.table);
    out.put_u32_le(row.lies_in);
    out.put_u32_le(row.place.0);
    out.put_u16_le(row.place.1);
    put_text(out, row.id.as_deref());
}

pub(super) fn get_row(bytes: &mut &[u8]) -> Result<RowName, MalformedEntry> {
    Ok(RowName {
        table: bytes.try_get_u32_le()?,
        lies_in: bytes.try_get_u32_le()?,
        place: (bytes.try_get_u32_le()?, bytes.try_get_u16_le()?),
        id: get_text(bytes)?,
    })
}

/// No text has another length than one of no bytes.
const NO_TEXT: u16 = u16::MAX;

pub(super) fn put_text(out: &mut Vec<u8>, text: Option<&str>) {
    let Some(text) = text else { return out.put_u16_le(NO_TEXT) };
    let end = (0..=text.len().min(TEXT_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end));
    let kept = text.get(..end.unwrap_or_default()).unwrap_or_default();
    out.put_u16_le(u16::try_from(kept.len()).unwrap_or_default());
    out.put_slice(kept.as_bytes());
}

pub(super) fn get_text(bytes: &mut &[u8]) -> Result<Option<String>, MalformedEntry> {
    let length = bytes.try_get_u16_le()?;
    if length == NO_TEXT {
        return Ok(None);
    }
    let (text, rest) = bytes.split_at_checked(usize::from(length)).ok_or(MalformedEntry)?;
    *bytes = rest;
    Ok(Some(std::str::from_utf8(text).map_err(|_| MalformedEntry)?.to_owned()))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in super::super) fn row() -> impl Strategy<Value = RowName> {
        (any::<(u32, u32, u32, u16)>(), prop::option::of(".{0,40}")).prop_map(
            |((table, lies_in, block, number), id)| RowName { table, lies_in, place: (block, number), id },
        )
    }

    fn contents() -> impl Strategy<Value = Contents> {
        any::<(u64, u64, u64)>().prop_map(|(key, value, headers)| Contents { key, value, headers })
    }

    pub(in super::super) fn spot() -> impl Strategy<Value = Spot> {
        prop_oneof![
            Just(Spot::Any),
            any::<u32>().prop_map(Spot::Hashed),
            any::<i32>().prop_map(Spot::Decided)
        ]
    }

    pub(in super::super) fn back<E: Entry>(entry: &E) -> E {
        let mut bytes = Vec::new();
        entry.write(&mut bytes);
        let mut rest = bytes.as_slice();
        let back = E::read(&mut rest).unwrap();
        assert!(rest.is_empty());
        // Cut anywhere, it is refused.
        for end in 0..bytes.len() {
            assert!(E::read(&mut &bytes[..end]).is_err());
        }
        back
    }

    proptest! {
        #[test]
        fn what_is_expected_is_read_back(
            identity: u64, contents in contents(), topic: u32, spot in spot(),
            numbers: [Option<i64>; 3], refusal in prop::option::of(".{0,40}"), row in row()
        ) {
            let [timestamp_ms, written_ms, order] = numbers;
            let (identity, topic) = (Identity(identity), TopicNumber(topic));
            let entry = Expected {
                identity, contents, topic, spot, timestamp_ms, written_ms, order, refusal, row
            };
            prop_assert_eq!(back(&entry), entry);
        }

        #[test]
        fn what_is_found_is_read_back(
            identity: u64, contents in contents(), topic: u32, partition: i32, offset: i64,
            timestamp_ms: Option<i64>, behind: bool, without_value: bool, record: Option<(i32, i64)>, order: i64,
            row in row()
        ) {
            let (identity, topic) = (Identity(identity), TopicNumber(topic));
            let found =
                Found { identity, contents, topic, partition, offset, timestamp_ms, behind, without_value };
            prop_assert_eq!(back(&found), found);
            let entry = OrderEntry { key: identity, topic, record, order, row };
            prop_assert_eq!(back(&entry), entry);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            drop(Expected::read(&mut bytes.as_slice()));
            drop(Found::read(&mut bytes.as_slice()));
            drop(OrderEntry::read(&mut bytes.as_slice()));
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut bytes = Vec::new();
        put_text(&mut bytes, Some(&"ä".repeat(TEXT_BYTES_MAX)));
        let text = get_text(&mut bytes.as_slice()).unwrap().unwrap();
        assert_eq!(text, "ä".repeat(TEXT_BYTES_MAX / 2));
    }
}
