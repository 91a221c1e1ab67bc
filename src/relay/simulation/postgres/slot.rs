//! Changes of the slot by other clients while no relay has it, and its state as a start sees it.

use fastrand::Rng;

use super::server::Server;
use crate::relay::origin::Origin;
use crate::relay::simulation::oracle::truth::Truth;
use crate::wal::{Lsn, SystemId, TimelineId};

/// Bytes by which a server may report the end of its WAL too early, where a page begins. Here that is much,
/// so this server always does.
const WAL_PAGE_BYTES: u64 = 8192;

/// State of the slot as a relay sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay::simulation) enum SlotLook {
    /// In use.
    Active,
    Missing,
    /// Free, at this position.
    At(Lsn),
}

/// Change of the slot by a client that does not own it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay::simulation) enum Meddling {
    Advance,
    Drop,
    MakeAgain,
}

pub(in crate::relay::simulation) const MEDDLING: [Meddling; 3] =
    [Meddling::Advance, Meddling::Drop, Meddling::MakeAgain];

impl Server {
    pub(in crate::relay::simulation) fn look(&self) -> SlotLook {
        if self.is_in_use() {
            SlotLook::Active
        } else if self.dropped {
            SlotLook::Missing
        } else {
            SlotLook::At(Lsn::new(self.confirmed))
        }
    }

    pub(in crate::relay::simulation) fn origin(&self) -> Origin {
        Origin { system_id: SystemId("1".to_owned()), timeline: TimelineId(self.timeline) }
    }

    /// Returns the end of the WAL, as early as the server may report it.
    pub(in crate::relay::simulation) fn told_end(&self) -> Lsn {
        Lsn::new(self.wal.end.saturating_sub(WAL_PAGE_BYTES))
    }

    /// Changes the slot as another client would, if no relay has it.
    pub(in crate::relay::simulation) fn meddle(
        &mut self,
        meddling: Meddling,
        rng: &mut Rng,
        truth: &mut Truth,
    ) {
        if self.is_in_use() || self.dropped {
            return;
        }
        self.release(truth);
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
        truth.report(|| format!("somebody: {meddling:?}, the slot stands at {}", self.confirmed));
    }

    pub(in crate::relay::simulation) fn make_slot(&mut self) {
        (self.confirmed, self.persisted) = (self.wal.end, self.wal.end);
        (self.moved, self.persisted_moved) = (Some(self.confirmed), Some(self.confirmed));
        self.dropped = false;
    }

    /// Returns whether the slot is not where the relays left it.
    pub(in crate::relay::simulation) const fn is_touched(&self) -> bool {
        self.dropped || self.moved.is_some()
    }

    /// Applies a stored position of this history: if it is behind where the slot was moved, a relay has
    /// continued from there.
    pub(in crate::relay::simulation) fn heed_position(&mut self, truth: &Truth) {
        let Some(kept) = truth.position.as_ref().filter(|kept| self.is_of_today(kept.timeline, kept.history))
        else {
            return;
        };
        for moved in [&mut self.moved, &mut self.persisted_moved] {
            moved.take_if(|to| *to <= kept.lsn);
        }
    }

    /// Returns whether LSNs of this history mean what they mean now.
    pub(in crate::relay::simulation) const fn is_of_today(&self, timeline: u32, history: usize) -> bool {
        timeline == self.timeline && history == self.went_back
    }
}
