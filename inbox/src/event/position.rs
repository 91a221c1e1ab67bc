//! Position of an event in the WAL.

use super::Event;

/// Header of the relay: `<system identifier>/<commit LSN>/L<LSN>/<number>`, with `/<part>` at the end for a further record of the
/// event. Earlier relays number the events of a transaction, `<system identifier>/<commit LSN>/<number>`, which is before all other
/// positions of the same transaction.
const HEADER: &str = "outboxd.position";

/// Position of an event in the WAL of its database.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// System identifier of the database cluster.
    pub(crate) source: String,
    /// Rest of the header. The order of the texts is that of the events.
    pub(crate) place: String,
}

impl Position {
    /// Returns the position of an event, or `None` if it has no header that can be compared.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let text = std::str::from_utf8(event.headers.last(HEADER)?).ok()?;
        let (source, place) = text.split_once('/')?;
        let lengths: Vec<usize> = place.split('/').map(str::len).collect();
        let is_number = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte) || byte == b'/';
        let numbers = match lengths.as_slice() {
            [16, 8] | [16, 8, 2] => place.to_owned(),
            [16, 17, 8] | [16, 17, 8, 2] => place.replacen("/L", "/0", 1),
            _ => return None,
        };
        let is_known = numbers.bytes().all(is_number);
        let is_source = !source.is_empty() && source.bytes().all(|byte| byte.is_ascii_digit());
        (is_known && is_source).then(|| Self { source: source.to_owned(), place: place.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::Headers;

    fn position(header: &[u8]) -> Option<Position> {
        let mut headers = Headers::default();
        headers.push(HEADER, Some(header.to_vec()));
        let (topic, key, value) = ("t".into(), None, None);
        Position::of(&Event { topic, partition: 0, offset: 0, key, value, headers, timestamp_ms: None })
    }

    #[test]
    fn what_the_relay_writes_is_read_and_in_order() {
        let texts = [
            "7/00000001000000A0/00000003",
            "7/00000001000000A0/00000003/01",
            "7/00000001000000A0/00000003/0A",
            "7/00000001000000A0/00000004",
            "7/00000001000000A0/L0000000100000090/00000000",
            "7/00000001000000A0/L0000000100000090/00000001",
            "7/00000001000000A0/L0000000100000090/00000001/01",
            "7/00000001000000A0/L0000000100000098/00000000",
            "7/00000001000000B0/00000000",
        ];
        let read: Vec<Position> = texts.iter().filter_map(|text| position(text.as_bytes())).collect();
        assert_eq!((read.len(), read.is_sorted()), (texts.len(), true));
    }

    #[test]
    fn what_cannot_be_compared_is_no_position() {
        let many = "7/00000001000000A0/00000003/100";
        for text in ["", "7", "7/A0/3", "/00000001000000A0/00000003", "x/00000001000000A0/00000003", many] {
            assert_eq!(position(text.as_bytes()), None, "{text}");
        }
        assert_eq!(position(b"7/00000001000000a0/00000003"), None);
    }

    proptest! {
        #[test]
        fn any_header_is_read_or_ignored(header in any::<Vec<u8>>()) {
            position(&header);
        }
    }
}
