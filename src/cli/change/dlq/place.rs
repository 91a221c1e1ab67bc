//! Positions of dead letters on the command line.

use std::fmt;
use std::str::FromStr;

/// A dead letter on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Partition; none where the topic has only one.
    pub(super) partition: Option<i32>,
    pub(super) offset: i64,
}

impl Place {
    pub(super) fn is_at(self, partition: i32, offset: i64) -> bool {
        self.offset == offset && self.partition.unwrap_or_default() == partition
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.partition {
            Some(partition) => write!(f, "{partition}:{}", self.offset),
            None => write!(f, "{}", self.offset),
        }
    }
}

pub(super) fn parse_place(text: &str) -> Result<Place, String> {
    let refused = || format!("{text:?} is neither OFFSET nor PARTITION:OFFSET");
    let (partition, offset) = match text.split_once(':') {
        Some((partition, offset)) => (Some(number::<i32>(partition).ok_or_else(refused)?), offset),
        None => (None, text),
    };
    Ok(Place { partition, offset: number(offset).ok_or_else(refused)? })
}

/// Parses a number of digits alone.
fn number<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_offset_with_or_without_a_partition() {
        assert_eq!(parse_place("17"), Ok(Place { partition: None, offset: 17 }));
        assert_eq!(parse_place("2:17"), Ok(Place { partition: Some(2), offset: 17 }));
        for text in ["", ":", "2:", ":17", "-1", "2:-1", "a", "1:2:3"] {
            assert!(parse_place(text).is_err(), "{text}");
        }
    }
}
