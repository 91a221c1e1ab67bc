//! Selection of events on the command line.

use std::fmt;

use crate::cli::shell::text::shown;

/// The record of an event in Kafka.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
}

impl Place {
    /// Parses an argument. No topic's name has a colon.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let refused = || format!("{text:?} is not TOPIC:PARTITION:OFFSET");
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next().filter(|part| !part.is_empty()).ok_or_else(refused);
        let (topic, partition, offset) = (part()?.to_owned(), part()?, part()?);
        let partition = partition.parse().ok().filter(|number| *number >= 0).ok_or_else(refused)?;
        // Events of a topic that was created again since have negative ones.
        let offset = offset.parse().map_err(|_| refused())?;
        Ok(Self { topic, partition, offset })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.topic, self.partition, self.offset)
    }
}

/// Selected events of a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Selection {
    Key(Vec<u8>),
    Id(String),
    Place(Place),
    All,
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, "with key {}", shown(Some(key))),
            Self::Id(id) => write!(f, "with id {}", shown(Some(id.as_bytes()))),
            Self::Place(place) => write!(f, "at {}", shown(Some(place.to_string().as_bytes()))),
            Self::All => f.write_str("of any key"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_topic_a_partition_and_an_offset() {
        let place = Place { topic: "a.b".to_owned(), partition: 2, offset: 17 };
        assert_eq!((Place::parse("a.b:2:17"), place.to_string()), (Ok(place), "a.b:2:17".to_owned()));
        for text in ["", "a", "a:1", ":1:2", "a:1:", "a:-1:2", "a:1:2:3", "a:b:c"] {
            assert!(Place::parse(text).is_err(), "{text}");
        }
    }
}
