//! The header `outboxd.position`: writing and parsing of an event's position.

use std::fmt::Write as _;

use crate::transaction::EventPosition;
use crate::wal::{Lsn, SystemId};

/// Writes the header `outboxd.position`, always into the same buffer.
///
/// Its width is fixed, so that for one system identifier the order of the texts is that of the positions. The
/// part of an event's only or first record is omitted; that of a further one stands behind, in 2 digits. The
/// letter comes behind all digits: a text of an outboxd that counted the events of a transaction (`<commit
/// LSN>/<number>`) is before the ones of today for the same transaction.
#[derive(Debug)]
pub(in crate::relay) struct PositionText {
    text: String,
    /// Length of the prefix that all texts share.
    fixed: usize,
}

impl PositionText {
    pub(super) fn new(system_id: &SystemId) -> Self {
        let text = format!("{system_id}/");
        Self { fixed: text.len(), text }
    }

    /// Returns the text of a position.
    pub(in crate::relay) fn of(&mut self, position: EventPosition) -> &[u8] {
        self.text.truncate(self.fixed);
        // Writing to a string does not fail.
        let EventPosition { commit_lsn, lsn, ordinal, .. } = position;
        write!(self.text, "{:016X}/L{:016X}/{ordinal:08X}", commit_lsn.get(), lsn.get()).ok();
        if position.part > 0 {
            write!(self.text, "/{:02X}", position.part).ok();
        }
        self.text.as_bytes()
    }
}

/// Returns the position of a text, unless it is another system's, or not one of outboxd's. A text that counts
/// the events of its transaction does not contain their LSNs: it stands for the transaction's begin.
pub(super) fn parse(system_id: &SystemId, text: &[u8]) -> Option<EventPosition> {
    let rest = std::str::from_utf8(text).ok()?.strip_prefix(system_id.0.as_str())?.strip_prefix('/')?;
    let (lsn, rest) = rest.split_once('/')?;
    let commit_lsn = Lsn::new(hexadecimal(lsn)?);
    let Some(rest) = rest.strip_prefix('L') else {
        numbered(rest)?;
        return Some(EventPosition::begin(commit_lsn));
    };
    let (lsn, rest) = rest.split_once('/')?;
    let (ordinal, part) = numbered(rest)?;
    Some(EventPosition { commit_lsn, lsn: Lsn::new(hexadecimal(lsn)?), ordinal, part })
}

/// Parses a number, and the part behind it.
fn numbered(text: &str) -> Option<(u64, u32)> {
    match text.split_once('/') {
        None => Some((hexadecimal(text)?, 0)),
        Some((number, part)) => Some((hexadecimal(number)?, further_part(part)?)),
    }
}

/// Parses the part of a record that is not the first: it is written in 2 digits or more.
fn further_part(digits: &str) -> Option<u32> {
    let part = u32::try_from(hexadecimal(digits)?).ok()?;
    (part > 0 && digits.len() >= 2).then_some(part)
}

fn hexadecimal(digits: &str) -> Option<u64> {
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit() || (b'A'..=b'F').contains(&digit));
    u64::from_str_radix(digits, 16).ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn system() -> SystemId {
        SystemId("7423456789012345678".to_owned())
    }

    fn at(commit_lsn: u64, ordinal: u64) -> EventPosition {
        EventPosition::new(Lsn::new(commit_lsn), Lsn::new(commit_lsn.saturating_sub(1)), ordinal)
    }

    #[test]
    fn a_position_is_written_with_a_fixed_width() {
        let mut text = PositionText::new(&system());
        assert_eq!(
            text.of(at(0x1_0000_00A0, 3)),
            b"7423456789012345678/00000001000000A0/L000000010000009F/00000003"
        );
        assert_eq!(
            text.of(at(0x1_0000_00A0, 3).next_part()),
            b"7423456789012345678/00000001000000A0/L000000010000009F/00000003/01"
        );
        assert_eq!(text.of(at(0, 0)), b"7423456789012345678/0000000000000000/L0000000000000000/00000000");
        let (before, position) = (text.text.capacity(), at(u64::MAX, u64::from(u32::MAX)));
        assert_eq!(text.of(position), b"7423456789012345678/FFFFFFFFFFFFFFFF/LFFFFFFFFFFFFFFFE/FFFFFFFF");
        assert_eq!(text.text.capacity(), before, "the buffer is kept");
    }

    #[test]
    fn what_is_not_ours_is_no_position() {
        for text in [
            "",
            "7423456789012345678",
            "7423456789012345678/",
            "742345678901234567/0000000000000001/00000001",
            "74234567890123456789/0000000000000001/00000001",
            "7423456789012345678/0000000000000001",
            "7423456789012345678/0000000000000001/",
            "7423456789012345678/+000000000000001/00000001",
            "7423456789012345678/0000000000000001/00000001/2",
            "7423456789012345678/0000000000000001/00000001/00",
            "7423456789012345678/0000000000000001/00000001/",
            "7423456789012345678/0000000000000001/00000001/01/01",
            "7423456789012345678/0000000000000001/00000001/100000000",
            "7423456789012345678/0000000000000001/10000000000000000",
            "7423456789012345678/0000000000000001/L0000000000000001",
            "7423456789012345678/0000000000000001/L0000000000000001/",
            "7423456789012345678/0000000000000001/L/00000001",
            "7423456789012345678/0000000000000001/L0000000000000001/00000001/00",
        ] {
            assert_eq!(parse(&system(), text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(&system(), b"7423456789012345678/\xFF"), None);
    }

    #[test]
    fn a_text_that_counts_events_is_the_begin_of_its_transaction_and_before_the_others() {
        let mut text = PositionText::new(&system());
        for counted in ["00000000", "FFFFFFFF", "00000007/01"] {
            let counted = format!("7423456789012345678/00000000000000A0/{counted}");
            assert_eq!(parse(&system(), counted.as_bytes()), Some(EventPosition::begin(Lsn::new(0xA0))));
            assert!(counted.as_bytes() < text.of(EventPosition::begin(Lsn::new(0xA0))), "{counted}");
            assert!(counted.as_bytes() > text.of(EventPosition::end(Lsn::new(0x9F))), "{counted}");
        }
    }

    /// Generates positions of few transactions and events, so that they are often of the same one.
    fn position() -> impl Strategy<Value = EventPosition> {
        let few_or_any = |few: u32| prop_oneof![0..few, any::<u32>()];
        let lsn = prop_oneof![0..3u64, any::<u64>()];
        let part = any::<u8>().prop_map(u32::from);
        (lsn, few_or_any(3), part)
            .prop_map(|(lsn, ordinal, part)| EventPosition { part, ..at(lsn, u64::from(ordinal)) })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_ordered(a in position(), b in position()) {
            let mut text = PositionText::new(&system());
            let [first, second] = [a, b].map(|position| text.of(position).to_vec());
            prop_assert_eq!(parse(&system(), &first), Some(a));
            prop_assert_eq!(first.cmp(&second), a.cmp(&b));
        }

        #[test]
        fn any_part_is_read_back(part: u32) {
            let position = EventPosition { part, ..at(1, 2) };
            prop_assert_eq!(parse(&system(), PositionText::new(&system()).of(position)), Some(position));
        }

        #[test]
        fn any_text_is_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..60)) {
            parse(&system(), &text);
        }
    }
}
