//! What others do with the slot while no relay has it, and what a start sees of it.

use fastrand::Rng;

use super::server::Server;
use super::truth::Truth;
use crate::relay::origin::Origin;
use crate::wal::{Lsn, SystemId, TimelineId};

/// By so much a server may tell the end of its WAL too early, where a page begins. Here that is much, so this server always
/// does.
const WAL_PAGE_BYTES: u64 = 8192;

/// What a relay finds when it asks for the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotLook {
    /// Somebody has it.
    Active,
    Missing,
    /// It is free and stands there.
    At(Lsn),
}

/// What somebody does with a slot that is not theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meddling {
    Advance,
    Drop,
    MakeAgain,
}

pub(super) const MEDDLING: [Meddling; 3] = [Meddling::Advance, Meddling::Drop, Meddling::MakeAgain];

impl Server {
    pub(super) fn look(&self) -> SlotLook {
        if self.is_in_use() {
            SlotLook::Active
        } else if self.dropped {
            SlotLook::Missing
        } else {
            SlotLook::At(Lsn::new(self.confirmed))
        }
    }

    pub(super) fn origin(&self) -> Origin {
        Origin { system_id: SystemId("1".to_owned()), timeline: TimelineId(self.timeline) }
    }

    /// Where the WAL ends, as early as the server may tell it.
    pub(super) fn told_end(&self) -> Lsn {
        Lsn::new(self.wal.end.saturating_sub(WAL_PAGE_BYTES))
    }

    /// Somebody does something with the slot, if no relay has it.
    pub(super) fn meddle(&mut self, meddling: Meddling, rng: &mut Rng, truth: &mut Truth) {
        if self.is_in_use() || self.dropped {
            return;
        }
        self.let_go(truth);
        match meddling {
            Meddling::Advance => {
                let ends = self.wal.pieces.iter().map(super::wal::Piece::end);
                let ends: Vec<u64> = ends.filter(|end| *end > self.confirmed).collect();
                let Some(to) = rng.choice(ends) else { return };
                (self.confirmed, self.moved) = (to, Some(to));
            }
            Meddling::Drop => self.dropped = true,
            Meddling::MakeAgain => self.make_slot(),
        }
        truth.tell(|| format!("somebody: {meddling:?}, the slot stands at {}", self.confirmed));
    }

    pub(super) fn make_slot(&mut self) {
        (self.confirmed, self.persisted) = (self.wal.end, self.wal.end);
        (self.moved, self.persisted_moved) = (Some(self.confirmed), Some(self.confirmed));
        self.dropped = false;
    }

    /// Whether the slot is not where the relays have left it.
    pub(super) const fn is_touched(&self) -> bool {
        self.dropped || self.moved.is_some()
    }

    /// A relay has kept a position of this history: if it lies behind where the slot was moved, a relay goes on from there.
    pub(super) fn heed_position(&mut self, truth: &Truth) {
        let Some(kept) = truth.position.as_ref().filter(|kept| self.is_of_today(kept.timeline, kept.history))
        else {
            return;
        };
        for moved in [&mut self.moved, &mut self.persisted_moved] {
            moved.take_if(|to| *to <= kept.lsn);
        }
    }

    /// Whether LSNs of this history mean what they mean now.
    pub(super) const fn is_of_today(&self, timeline: u32, history: usize) -> bool {
        timeline == self.timeline && history == self.went_back
    }
}
