use std::str::FromStr;

/// A value of a header.
pub(super) trait Field: Sized {
    /// None when the bytes are no such value.
    fn read(bytes: &[u8]) -> Option<Self>;
    fn write(&self) -> Vec<u8>;
}

/// What is not UTF-8 is shown as well as it can be.
impl Field for String {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self::from_utf8_lossy(bytes).into_owned())
    }

    fn write(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

/// A number in decimal digits.
pub(super) struct Decimal<T>(pub(super) T);

impl<T: FromStr + ToString> Field for Decimal<T> {
    fn read(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok()?.parse().ok().map(Self)
    }

    fn write(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }
}

/// Java's `ByteBuffer.putInt`.
pub(super) struct BigEndian32(pub(super) i32);

impl Field for BigEndian32 {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self(i32::from_be_bytes(bytes.try_into().ok()?)))
    }

    fn write(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }
}

/// Java's `ByteBuffer.putLong`.
pub(super) struct BigEndian64(pub(super) i64);

impl Field for BigEndian64 {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self(i64::from_be_bytes(bytes.try_into().ok()?)))
    }

    fn write(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }
}
