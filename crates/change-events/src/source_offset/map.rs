//! Serialized Java maps of offsets.

use bytes::BufMut;

use pg_replication::wire::{DecodeError, Reader, Shortage};

/// Offsets in the file of a `FileOffsetBackingStore`: a serialized Java `HashMap<byte[], byte[]>`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OffsetMap(Vec<(Bytes, Bytes)>);

/// Java's `byte[]`, or null.
type Bytes = Option<Vec<u8>>;

/// Stream magic and version; a new object of class `java.util.HashMap` with its `serialVersionUID`, which writes its own
/// data behind two fields, `float loadFactor` and `int threshold`; no annotations, no superclass.
const HEADER: &[u8] = b"\xAC\xED\0\x05sr\0\x11java.util.HashMap\x05\x07\xDA\xC1\xC3\x16\x60\xD1\x03\0\x02\
    F\0\nloadFactorI\0\tthresholdxp";

/// A new array of class `[B`, described here for the first time.
const FIRST_ARRAY: &[u8] = b"ur\0\x02[B\xAC\xF3\x17\xF8\x06\x08\x54\xE0\x02\0\0xp";
/// A new array of the class that was described as the third thing.
const NEXT_ARRAY: &[u8] = b"uq\0\x7E\0\x02";
const NULL: u8 = b'p';
/// Eight bytes of the class's own data follow.
const BLOCK: [u8; 2] = [b'w', 8];
const END_OF_BLOCK: u8 = b'x';

/// Java's default, 0.75.
const LOAD_FACTOR: u32 = 0x3F40_0000;
const CAPACITY_MIN: usize = 16;

impl OffsetMap {
    /// Reads the file. An empty file is an empty map, as in Connect.
    ///
    /// # Errors
    /// When the file contains anything else than such a map.
    pub fn parse(file: &[u8]) -> Result<Self, DecodeError> {
        if file.is_empty() {
            return Ok(Self::default());
        }
        let mut reader = Reader::new("java.util.HashMap", file);
        expect(&mut reader, HEADER)?;
        let _load_factor_and_threshold = reader.u64()?;
        expect(&mut reader, &BLOCK)?;
        let _capacity = reader.u32()?;
        let count = reader.length()?;
        let mut arrays = Arrays::default();
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push((arrays.read(&mut reader)?, arrays.read(&mut reader)?));
        }
        expect(&mut reader, &[END_OF_BLOCK])?;
        reader.end()?;
        Ok(Self(entries))
    }

    /// Returns the content of the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = HEADER.to_vec();
        let capacity = self.capacity();
        out.put_u32(LOAD_FACTOR);
        out.put_u32(java_int(capacity / 4 * 3));
        out.extend(BLOCK);
        out.put_u32(java_int(capacity));
        out.put_u32(java_int(self.0.len()));
        let mut arrays = Arrays::default();
        for (key, value) in &self.0 {
            arrays.write(&mut out, key.as_deref());
            arrays.write(&mut out, value.as_deref());
        }
        out.push(END_OF_BLOCK);
        out
    }

    /// Returns the value that is stored under a key; null counts as missing.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|(other, _)| other.as_deref() == Some(key))?.1.as_deref()
    }

    /// Stores a value; the other values stay.
    pub fn insert(&mut self, key: &[u8], value: Vec<u8>) {
        match self.0.iter_mut().find(|(other, _)| other.as_deref() == Some(key)) {
            Some((_, stored)) => *stored = Some(value),
            None => self.0.push((Some(key.to_vec()), Some(value))),
        }
    }

    /// Returns the number of buckets that Java would create: a power of two, at most three quarters of it filled.
    fn capacity(&self) -> usize {
        let needed = self.0.len().saturating_mul(4).div_ceil(3);
        needed.max(CAPACITY_MIN).checked_next_power_of_two().unwrap_or(CAPACITY_MIN)
    }
}

/// State of a stream's arrays; only the first one describes its class.
#[derive(Default)]
struct Arrays {
    described: bool,
}

impl Arrays {
    fn read(&mut self, reader: &mut Reader<'_>) -> Result<Bytes, DecodeError> {
        if reader.clone().u8()? == NULL {
            reader.u8()?;
            return Ok(None);
        }
        expect(reader, self.next())?;
        let length = reader.length()?;
        Ok(Some(reader.bytes(length)?.to_vec()))
    }

    fn write(&mut self, out: &mut Vec<u8>, bytes: Option<&[u8]>) {
        match bytes {
            None => out.push(NULL),
            Some(bytes) => {
                out.extend(self.next());
                out.put_u32(java_int(bytes.len()));
                out.extend(bytes);
            }
        }
    }

    const fn next(&mut self) -> &'static [u8] {
        if std::mem::replace(&mut self.described, true) { NEXT_ARRAY } else { FIRST_ARRAY }
    }
}

fn expect(reader: &mut Reader<'_>, expected: &[u8]) -> Result<(), DecodeError> {
    for byte in expected {
        let at = reader.clone();
        let found = reader.u8()?;
        if found != *byte {
            return Err(at.error(Shortage::UnknownTag(found)));
        }
    }
    Ok(())
}

/// Converts a number that always fits: the entries come from a file, and at most one is added.
fn java_int(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Written by Debezium Server 3.6.0.Final.
    const RECORDED: &[u8] = include_bytes!("../../../../tests/golden/offsets/debezium-server-3.6.0.dat");

    #[test]
    fn the_file_of_debezium_server_is_read_and_written() {
        let map = OffsetMap::parse(RECORDED).unwrap();
        let offset = map.get(br#"["kafka",{"server":"srv"}]"#).unwrap();
        assert!(offset.starts_with(br#"{"lsn_proc":26935168,"messageType":"INSERT""#));
        assert_eq!(map.get(b"another"), None);
        assert_eq!(map.to_bytes(), RECORDED);
    }

    #[test]
    fn nothing_is_complete_without_its_last_byte() {
        for length in 1..RECORDED.len() {
            assert!(OffsetMap::parse(&RECORDED[..length]).is_err(), "{length}");
        }
        assert_eq!(OffsetMap::parse(&[]).unwrap(), OffsetMap::default());
        let mut longer = RECORDED.to_vec();
        longer.push(0);
        assert!(OffsetMap::parse(&longer).is_err());
    }

    #[test]
    fn a_count_that_is_not_there_allocates_nothing() {
        let mut bytes = HEADER.to_vec();
        bytes.extend([0; 8]);
        bytes.extend(BLOCK);
        bytes.extend([0, 0, 0, 16, 0x7F, 0xFF, 0xFF, 0xFF]);
        assert!(OffsetMap::parse(&bytes).is_err());
    }

    #[test]
    fn a_value_is_replaced_and_the_others_stay() {
        let mut map = OffsetMap(vec![(Some(b"a".to_vec()), Some(b"1".to_vec())), (None, None)]);
        map.insert(b"a", b"2".to_vec());
        map.insert(b"b", b"3".to_vec());
        let map = OffsetMap::parse(&map.to_bytes()).unwrap();
        assert_eq!((map.get(b"a"), map.get(b"b"), map.0.len()), (Some(&b"2"[..]), Some(&b"3"[..]), 3));
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_to_itself(
            entries in prop::collection::vec(
                (prop::option::of(any::<Vec<u8>>()), prop::option::of(any::<Vec<u8>>())), 0..20,
            ),
        ) {
            let map = OffsetMap(entries);
            prop_assert_eq!(OffsetMap::parse(&map.to_bytes()).unwrap(), map);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, at in 0..RECORDED.len()) {
            drop(OffsetMap::parse(&bytes));
            let mut damaged = RECORDED[..at].to_vec();
            damaged.extend(bytes);
            drop(OffsetMap::parse(&damaged));
        }
    }
}
