//! Positions in the write-ahead log.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

/// A position in the write-ahead log: a byte offset, printed as PostgreSQL prints `pg_lsn` (`16/B374D848`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Lsn(u64);

/// A text that is not an LSN.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an LSN of the form 16/B374D848")]
pub struct ParseLsnError(String);

impl Lsn {
    /// `0/0`: unknown position to PostgreSQL, and the current position to a slot.
    pub const ZERO: Self = Self(0);

    /// Returns the position at this byte offset.
    #[must_use]
    pub const fn new(offset: u64) -> Self {
        Self(offset)
    }

    /// Returns the byte offset.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the bytes of WAL between `earlier` and this position; zero if `earlier` is not earlier.
    #[must_use]
    pub const fn bytes_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Self, ParseLsnError> {
        let half = |digits: &str| {
            let plain = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
            plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
        };
        text.split_once('/')
            .and_then(|(high, low)| Some(Self(half(high)? << 32 | half(low)?)))
            .ok_or_else(|| ParseLsnError(text.to_owned()))
    }
}

/// Serializes an LSN in PostgreSQL's text form.
impl Serialize for Lsn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Lsn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_printed_parses_to_itself(offset: u64) {
            prop_assert_eq!(Lsn(offset).to_string().parse(), Ok(Lsn(offset)));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text: String) {
            if let Ok(lsn) = text.parse::<Lsn>() {
                prop_assert_eq!(lsn.to_string().parse(), Ok(lsn));
            }
        }
    }

    #[test]
    fn postgres_forms_are_read() {
        assert_eq!("0/0".parse(), Ok(Lsn::ZERO));
        assert_eq!("16/B374D848".parse(), Ok(Lsn(0x16_B374_D848)));
        for wrong in ["", "/", "1", "1/", "/1", "+1/0", "1/123456789", "g/0", "0/ 1"] {
            assert!(wrong.parse::<Lsn>().is_err(), "{wrong}");
        }
    }
}
