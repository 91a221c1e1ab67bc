use std::fmt::Write as _;

use crate::transaction::EventPosition;
use crate::wal::{Lsn, SystemId};

/// Writes the header `outboxd.position`, always into the same buffer.
///
/// Its width is fixed, so that for one system identifier the order of the texts is that of the positions.
#[derive(Debug)]
pub(in crate::relay) struct PositionText {
    text: String,
    /// How much of it is the same for all.
    fixed: usize,
}

impl PositionText {
    pub(super) fn new(system_id: &SystemId) -> Self {
        let text = format!("{system_id}/");
        Self { fixed: text.len(), text }
    }

    /// That of a position.
    pub(in crate::relay) fn of(&mut self, position: EventPosition) -> &[u8] {
        self.text.truncate(self.fixed);
        // Writing to a string does not fail.
        write!(self.text, "{:016X}/{:08X}", position.commit_lsn.get(), position.ordinal).ok();
        self.text.as_bytes()
    }
}

/// The position that a text tells, unless it is another system's, or none of ours.
pub(super) fn parse(system_id: &SystemId, text: &[u8]) -> Option<EventPosition> {
    let rest = std::str::from_utf8(text).ok()?.strip_prefix(system_id.0.as_str())?.strip_prefix('/')?;
    let (lsn, ordinal) = rest.split_once('/')?;
    Some(EventPosition { commit_lsn: Lsn::new(hexadecimal(lsn)?), ordinal: hexadecimal(ordinal)? })
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
        EventPosition { commit_lsn: Lsn::new(commit_lsn), ordinal }
    }

    #[test]
    fn a_position_is_written_with_a_fixed_width() {
        let mut text = PositionText::new(&system());
        assert_eq!(text.of(at(0x1_0000_00A0, 3)), b"7423456789012345678/00000001000000A0/00000003");
        assert_eq!(text.of(at(0, 0)), b"7423456789012345678/0000000000000000/00000000");
        let (before, position) = (text.text.capacity(), at(u64::MAX, u64::from(u32::MAX)));
        assert_eq!(text.of(position), b"7423456789012345678/FFFFFFFFFFFFFFFF/FFFFFFFF");
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
            "7423456789012345678/0000000000000001/10000000000000000",
        ] {
            assert_eq!(parse(&system(), text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(&system(), b"7423456789012345678/\xFF"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_ordered(a in any::<(u64, u32)>(), b in any::<(u64, u32)>()) {
            let [a, b] = [a, b].map(|(lsn, ordinal)| at(lsn, u64::from(ordinal)));
            let mut text = PositionText::new(&system());
            let [first, second] = [a, b].map(|position| text.of(position).to_vec());
            prop_assert_eq!(parse(&system(), &first), Some(a));
            prop_assert_eq!(first.cmp(&second), a.cmp(&b));
        }

        #[test]
        fn any_text_is_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..60)) {
            parse(&system(), &text);
        }
    }
}
