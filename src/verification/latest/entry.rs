//! Rows with the expected state of their records.

use bytes::{Buf as _, BufMut as _};

use super::visibility::Visibility;
use crate::verification::digest::{Identity, hash};
use crate::verification::entry::{
    Entry, MalformedEntry, RowName, Spot, TopicNumber, get_number, get_row, get_text, put_number, put_row,
    put_text,
};

/// A field of a row: its name and its value, as digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FieldDigest {
    pub name: u32,
    pub value: u64,
}

/// The fields of a row, in the order of their names' digests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Fields(pub Vec<FieldDigest>);

/// Row with the expected state of its key's last record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// Identity of topic and key; without a key, of topic and fields.
    pub identity: Identity,
    pub topic: TopicNumber,
    /// True if records of it have a key.
    pub keyed: bool,
    pub spot: Spot,
    pub fields: Fields,
    /// Reason why it makes no record.
    pub refusal: Option<String>,
    pub row: RowName,
}

/// A record of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// Identity as that of its row.
    pub identity: Identity,
    pub topic: TopicNumber,
    pub partition: i32,
    pub offset: i64,
    pub keyed: bool,
    pub visibility: Visibility,
    /// Position of its change in the WAL, if that orders it among those of its key: a row of a snapshot has
    /// none.
    pub lsn: Option<u64>,
    /// Digest by which it is recognised.
    pub event: Option<u64>,
    pub state: State,
}

/// State of the row in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Existing, with these fields.
    There(Fields),
    /// Deleted.
    Gone,
    /// Unreadable.
    Unreadable,
}

impl FieldDigest {
    /// Makes the digest of a field and its value as it is written.
    #[must_use]
    pub(crate) fn new(name: &str, value: &str) -> Self {
        Self { name: Self::name(name), value: hash(value) }
    }

    /// Returns the digest of a name.
    #[must_use]
    pub(crate) fn name(name: &str) -> u32 {
        u32::try_from(hash(name) >> 32).unwrap_or_default()
    }
}

impl Fields {
    /// Returns the value of a field, as a digest.
    #[must_use]
    pub(crate) fn get(&self, name: u32) -> Option<u64> {
        let index = self.0.binary_search_by_key(&name, |field| field.name).ok()?;
        self.0.get(index).map(|field| field.value)
    }

    fn write(&self, out: &mut Vec<u8>) {
        // A table has at most 1,600 columns.
        out.put_u16_le(u16::try_from(self.0.len()).unwrap_or(u16::MAX));
        for field in self.0.iter().take(usize::from(u16::MAX)) {
            out.put_u32_le(field.name);
            out.put_u64_le(field.value);
        }
    }

    fn read(bytes: &mut &[u8]) -> Result<Self, MalformedEntry> {
        let mut fields = Vec::new();
        for _ in 0..bytes.try_get_u16_le()? {
            fields.push(FieldDigest { name: bytes.try_get_u32_le()?, value: bytes.try_get_u64_le()? });
        }
        Ok(Self(fields))
    }
}

impl Entry for Row {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.identity.0);
        out.put_u32_le(self.topic.0);
        out.put_u8(u8::from(self.keyed));
        self.spot.write(out);
        self.fields.write(out);
        put_text(out, self.refusal.as_deref());
        put_row(out, &self.row);
    }

    fn read(bytes: &mut &[u8]) -> Result<Self, MalformedEntry> {
        Ok(Self {
            identity: Identity(bytes.try_get_u64_le()?),
            topic: TopicNumber(bytes.try_get_u32_le()?),
            keyed: bytes.try_get_u8()? != 0,
            spot: Spot::read(bytes)?,
            fields: Fields::read(bytes)?,
            refusal: get_text(bytes)?,
            row: get_row(bytes)?,
        })
    }
}

impl Entry for Change {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.identity.0);
        out.put_u32_le(self.topic.0);
        out.put_i32_le(self.partition);
        out.put_i64_le(self.offset);
        out.put_u8(u8::from(self.keyed));
        out.put_u8(match self.visibility {
            Visibility::Seen => 0,
            Visibility::Unknown => 1,
            Visibility::Unseen => 2,
        });
        for number in [self.lsn, self.event] {
            put_number(out, number.map(u64::cast_signed));
        }
        match &self.state {
            State::Gone => out.put_u8(0),
            State::Unreadable => out.put_u8(1),
            State::There(fields) => {
                out.put_u8(2);
                fields.write(out);
            }
        }
    }

    fn read(bytes: &mut &[u8]) -> Result<Self, MalformedEntry> {
        Ok(Self {
            identity: Identity(bytes.try_get_u64_le()?),
            topic: TopicNumber(bytes.try_get_u32_le()?),
            partition: bytes.try_get_i32_le()?,
            offset: bytes.try_get_i64_le()?,
            keyed: bytes.try_get_u8()? != 0,
            visibility: match bytes.try_get_u8()? {
                0 => Visibility::Seen,
                1 => Visibility::Unknown,
                2 => Visibility::Unseen,
                _ => return Err(MalformedEntry),
            },
            lsn: get_number(bytes)?.map(i64::cast_unsigned),
            event: get_number(bytes)?.map(i64::cast_unsigned),
            state: match bytes.try_get_u8()? {
                0 => State::Gone,
                1 => State::Unreadable,
                2 => State::There(Fields::read(bytes)?),
                _ => return Err(MalformedEntry),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::verification::entry::tests::{back, row, spot};

    fn fields() -> impl Strategy<Value = Fields> {
        let field = any::<(u32, u64)>().prop_map(|(name, value)| FieldDigest { name, value });
        prop::collection::vec(field, 0..5).prop_map(Fields)
    }

    fn state() -> impl Strategy<Value = State> {
        prop_oneof![Just(State::Gone), Just(State::Unreadable), fields().prop_map(State::There)]
    }

    fn visibility() -> impl Strategy<Value = Visibility> {
        prop_oneof![Just(Visibility::Seen), Just(Visibility::Unknown), Just(Visibility::Unseen)]
    }

    proptest! {
        #[test]
        fn rows_are_read_back(
            identity: u64, topic: u32, keyed: bool, spot in spot(), fields in fields(),
            refusal in prop::option::of(".{0,40}"), row in row()
        ) {
            let (identity, topic) = (Identity(identity), TopicNumber(topic));
            let entry = Row { identity, topic, keyed, spot, fields, refusal, row };
            prop_assert_eq!(back(&entry), entry);
        }

        #[test]
        fn changes_are_read_back(
            identity: u64, topic: u32, partition: i32, offset: i64, keyed: bool, visibility in visibility(),
            lsn: Option<u64>, event: Option<u64>, state in state()
        ) {
            let (identity, topic) = (Identity(identity), TopicNumber(topic));
            let entry = Change { identity, topic, partition, offset, keyed, visibility, lsn, event, state };
            prop_assert_eq!(back(&entry), entry);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            drop(Row::read(&mut bytes.as_slice()));
            drop(Change::read(&mut bytes.as_slice()));
        }
    }
}
