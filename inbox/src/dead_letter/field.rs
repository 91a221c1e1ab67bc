//! Values of headers.

use std::str::FromStr;

/// Value of a header.
pub(super) trait Field: Sized {
    /// Reads a value; `None` if the bytes are invalid.
    fn read(bytes: &[u8]) -> Option<Self>;
    fn write(&self) -> Vec<u8>;
}

/// Text of a header. Bytes that are not UTF-8 are replaced by U+FFFD.
impl Field for String {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self::from_utf8_lossy(bytes).into_owned())
    }

    fn write(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

/// Number in decimal digits.
pub(super) struct Decimal<T>(pub(super) T);

impl<T: FromStr + ToString> Field for Decimal<T> {
    fn read(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok()?.parse().ok().map(Self)
    }

    fn write(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }
}

/// Number as Java's `ByteBuffer.putInt` writes it.
pub(super) struct BigEndian32(pub(super) i32);

impl Field for BigEndian32 {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self(i32::from_be_bytes(bytes.try_into().ok()?)))
    }

    fn write(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }
}

/// Number as Java's `ByteBuffer.putLong` writes it.
pub(super) struct BigEndian64(pub(super) i64);

impl Field for BigEndian64 {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self(i64::from_be_bytes(bytes.try_into().ok()?)))
    }

    fn write(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }
}
