use std::fmt::Write as _;

use crate::transaction::EventPosition;
use crate::wal::SystemId;

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wal::Lsn;

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

    proptest! {
        #[test]
        fn what_is_written_is_ordered(a in any::<(u64, u32)>(), b in any::<(u64, u32)>()) {
            let [a, b] = [a, b].map(|(lsn, ordinal)| at(lsn, u64::from(ordinal)));
            let mut text = PositionText::new(&system());
            let [first, second] = [a, b].map(|position| text.of(position).to_vec());
            prop_assert_eq!(first.cmp(&second), a.cmp(&b));
        }
    }
}
