//! Cursor over a message's body.

use std::str;

/// A decoding error: the message, the offset in its body, and the cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("message {message} cannot be read at byte {offset}: {kind}")]
pub struct DecodeError {
    /// Name of the message in the protocol.
    pub message: &'static str,
    /// Offset from the start of the message's body, in bytes.
    pub offset: usize,
    /// Cause of the error.
    pub kind: Shortage,
}

/// Cause of a decoding error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    /// A body that ends inside a field.
    #[error("{wanted} more bytes were announced, {left} are left")]
    Truncated {
        /// Bytes that the field needs.
        wanted: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A string without its terminating zero byte.
    #[error("a string has no end")]
    Unterminated,
    /// A string that is not UTF-8.
    #[error("a string is not UTF-8")]
    NotUtf8,
    /// A tag that the protocol does not define here.
    #[error("unknown tag {0:#04x}")]
    UnknownTag(u8),
    /// A negative length or count.
    #[error("a length of {0} is negative")]
    NegativeLength(i32),
    /// Bytes after the last field.
    #[error("{0} bytes are left after the last field")]
    TrailingBytes(usize),
}

/// A cursor that never reads past the end and never copies.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    message: &'static str,
    body: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Returns a reader of `body`, the body of the message named `message`.
    #[must_use]
    pub const fn new(message: &'static str, body: &'a [u8]) -> Self {
        Self { message, body, offset: 0 }
    }

    /// Sets the message name for errors, once its tag is known.
    pub const fn name(&mut self, message: &'static str) {
        self.message = message;
    }

    /// Returns the number of bytes left.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.body.len().saturating_sub(self.offset)
    }

    /// Returns an error at the current offset.
    #[must_use]
    pub const fn error(&self, kind: Shortage) -> DecodeError {
        DecodeError { message: self.message, offset: self.offset, kind }
    }

    /// Reads the next `count` bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let rest = self.body.get(self.offset..).unwrap_or_default();
        let Some(bytes) = rest.get(..count) else {
            return Err(self.error(Shortage::Truncated { wanted: count, left: rest.len() }));
        };
        self.offset = self.offset.saturating_add(count);
        Ok(bytes)
    }

    /// Reads all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = self.body.get(self.offset..).unwrap_or_default();
        self.offset = self.body.len();
        rest
    }

    /// Reads a byte.
    ///
    /// # Errors
    /// When none is left.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// Reads an unsigned 16-bit number.
    ///
    /// # Errors
    /// When fewer than two bytes are left.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads an unsigned 32-bit number.
    ///
    /// # Errors
    /// When fewer than four bytes are left.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a signed 32-bit number.
    ///
    /// # Errors
    /// When fewer than four bytes are left.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads an unsigned 64-bit number.
    ///
    /// # Errors
    /// When fewer than eight bytes are left.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a signed 64-bit number.
    ///
    /// # Errors
    /// When fewer than eight bytes are left.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads a 32-bit length.
    ///
    /// # Errors
    /// When it is negative, or fewer than four bytes are left.
    pub fn length(&mut self) -> Result<usize, DecodeError> {
        let at = self.clone();
        let length = self.i32()?;
        usize::try_from(length).map_err(|_| at.error(Shortage::NegativeLength(length)))
    }

    /// Reads a zero-terminated UTF-8 string and returns it without the zero.
    ///
    /// # Errors
    /// When there is no zero, or the bytes are not UTF-8.
    pub fn cstr(&mut self) -> Result<&'a str, DecodeError> {
        let rest = self.body.get(self.offset..).unwrap_or_default();
        let Some(end) = memchr::memchr(0, rest) else {
            return Err(self.error(Shortage::Unterminated));
        };
        let text =
            str::from_utf8(rest.get(..end).unwrap_or_default()).map_err(|_| self.error(Shortage::NotUtf8))?;
        self.offset = self.offset.saturating_add(end).saturating_add(1);
        Ok(text)
    }

    /// Reads a zero-terminated text of the server, whose encoding is unknown before login. Invalid UTF-8 is replaced.
    ///
    /// # Errors
    /// When there is no zero.
    pub fn cstr_lossy(&mut self) -> Result<String, DecodeError> {
        let rest = self.body.get(self.offset..).unwrap_or_default();
        let Some(end) = memchr::memchr(0, rest) else {
            return Err(self.error(Shortage::Unterminated));
        };
        self.offset = self.offset.saturating_add(end).saturating_add(1);
        Ok(String::from_utf8_lossy(rest.get(..end).unwrap_or_default()).into_owned())
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    /// When bytes are left.
    pub const fn end(&self) -> Result<(), DecodeError> {
        match self.left() {
            0 => Ok(()),
            left => Err(self.error(Shortage::TrailingBytes(left))),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let rest = self.body.get(self.offset..).unwrap_or_default();
        let Some(array) = rest.first_chunk::<N>() else {
            return Err(self.error(Shortage::Truncated { wanted: N, left: rest.len() }));
        };
        self.offset = self.offset.saturating_add(N);
        Ok(*array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A read whose value does not matter.
    type Read = fn(&mut Reader<'_>) -> Result<(), DecodeError>;

    const READS: [Read; 10] = [
        |reader| reader.u8().map(drop),
        |reader| reader.u16().map(drop),
        |reader| reader.u32().map(drop),
        |reader| reader.i32().map(drop),
        |reader| reader.u64().map(drop),
        |reader| reader.i64().map(drop),
        |reader| reader.length().map(drop),
        |reader| reader.cstr().map(drop),
        |reader| reader.cstr_lossy().map(drop),
        |reader| reader.bytes(7).map(drop),
    ];

    proptest! {
        #[test]
        fn any_reads_of_any_bytes_go_forward_and_stay_inside(
            body in prop::collection::vec(prop_oneof![Just(0), any::<u8>()], 0..60),
            reads in prop::collection::vec(prop::sample::select(READS.to_vec()), 0..20),
        ) {
            let mut reader = Reader::new("test", &body);
            for read in reads {
                let before = reader.left();
                match read(&mut reader) {
                    Ok(()) => prop_assert!(reader.left() < before),
                    Err(error) => prop_assert_eq!(error.offset, body.len() - before),
                }
            }
            prop_assert_eq!(reader.left(), reader.rest().len());
            prop_assert_eq!(reader.end(), Ok(()));
        }

        #[test]
        fn strings_are_read_as_they_were_written(text in "[^\0]*", more: Vec<u8>) {
            let body = [text.as_bytes(), &[0], &more].concat();
            let (mut strict, mut lossy) = (Reader::new("test", &body), Reader::new("test", &body));
            prop_assert_eq!(strict.cstr(), Ok(text.as_str()));
            prop_assert_eq!(lossy.cstr_lossy(), Ok(text));
            prop_assert_eq!((strict.rest(), lossy.rest()), (more.as_slice(), more.as_slice()));
        }
    }

    #[test]
    fn an_error_says_where_and_what() {
        let cases: [(Read, &[u8], Shortage); 6] = [
            (|r| r.u32().map(drop), b"ab", Shortage::Truncated { wanted: 4, left: 2 }),
            (|r| r.bytes(usize::MAX).map(drop), b"a", Shortage::Truncated { wanted: usize::MAX, left: 1 }),
            (|r| r.cstr().map(drop), b"abc", Shortage::Unterminated),
            (|r| r.cstr().map(drop), b"\xFF\0", Shortage::NotUtf8),
            (|r| r.length().map(drop), b"\xFF\xFF\xFF\xFE", Shortage::NegativeLength(-2)),
            (|r| r.end(), b"abc", Shortage::TrailingBytes(3)),
        ];
        for (read, rest, kind) in cases {
            let body = [b"\x01", rest].concat();
            let mut reader = Reader::new("unnamed", &body);
            reader.name("Test");
            assert_eq!(reader.u8(), Ok(1));
            assert_eq!(read(&mut reader), Err(DecodeError { message: "Test", offset: 1, kind }));
        }
        let error = Reader::new("Test", b"").u8().unwrap_err();
        assert_eq!(
            error.to_string(),
            "message Test cannot be read at byte 0: 1 more bytes were announced, 0 are left"
        );
    }
}
