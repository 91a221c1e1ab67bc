//! The decision whether a start may use the slot, from the stored position, the slot and the server's history.

use super::record::{Phase, Position};
use crate::relay::origin::Origin;
use crate::wal::{Lsn, Oid};

/// Size of a WAL page. At the beginning of a page, the last record's end may be reported before or behind the
/// page's header.
const WAL_PAGE_BYTES: u64 = 8192;

/// Facts that a start has found.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct Facts<'f> {
    /// Position of this relay in Kafka.
    pub(in crate::relay) position: Option<&'f Position>,
    /// The server's history.
    pub(in crate::relay) origin: &'f Origin,
    /// The database that is there now.
    pub(in crate::relay) database: Oid,
    /// Position of the slot, if there is one.
    pub(in crate::relay) slot: Option<Lsn>,
    /// End of the server's WAL. Read when the slot was seen to be free.
    pub(in crate::relay) wal_end: Option<Lsn>,
    /// Up to where Debezium has sent, when its offset is stored.
    pub(in crate::relay) stored: Option<Lsn>,
    /// `outboxd.position.accept`
    pub(in crate::relay) accept: Option<Lsn>,
    /// True if this process has waited for the slot, which therefore existed.
    pub(in crate::relay) saw_slot: bool,
    /// `slot.drop.on.stop`
    pub(in crate::relay) drop_on_stop: bool,
    /// A slot that is made begins with a snapshot.
    pub(in crate::relay) begins_with_snapshot: bool,
}

/// Consequence of the facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) enum Verdict {
    /// The slot can be gone on from, or one can be made.
    GoOn,
    /// As `GoOn`, because the user has accepted it.
    Accepted,
    /// As `GoOn`, because the database was dropped, and another has its name, which was never streamed from.
    MadeAnew,
    /// The slot stands where no relay of ours has confirmed it.
    MovedAhead { from: Lsn, to: Lsn },
    /// There was a slot, and there is none. `from` is the LSN up to which it was confirmed, if that is known.
    Vanished { from: Option<Lsn> },
    /// The server is another one, or went back in time.
    OtherHistory { difference: String },
}

impl Verdict {
    const fn is_refusal(&self) -> bool {
        match self {
            Self::GoOn | Self::Accepted | Self::MadeAnew => false,
            Self::MovedAhead { .. } | Self::Vanished { .. } | Self::OtherHistory { .. } => true,
        }
    }
}

/// Returns whether the relay may begin with what it finds.
pub(in crate::relay) fn judge(facts: &Facts<'_>) -> Verdict {
    let Some(position) = facts.position else { return judge_alone(facts) };
    let verdict = judge_against(position, facts);
    let is_accepted = facts.accept.is_some() && facts.accept == position.acceptable(facts.slot);
    if verdict.is_refusal() && is_accepted { Verdict::Accepted } else { verdict }
}

/// Judges without a position: only what this process saw counts.
fn judge_alone(facts: &Facts<'_>) -> Verdict {
    match facts.slot {
        None if facts.saw_slot && !facts.drop_on_stop => Verdict::Vanished { from: None },
        Some(_) | None => Verdict::GoOn,
    }
}

fn judge_against(position: &Position, facts: &Facts<'_>) -> Verdict {
    let wal_end = facts.wal_end.unwrap_or(position.lsn);
    let read = WalHistory { origin: &position.origin(), end: position.lsn };
    if let Some(difference) = read.difference_from(WalHistory { origin: facts.origin, end: wal_end }) {
        return Verdict::OtherHistory { difference };
    }
    // This database was never streamed from before: `snapshot.mode` decides about its present rows, as at any
    // first start.
    if position.is_of_dropped(facts.database) {
        return match judge_alone(facts) {
            Verdict::GoOn => Verdict::MadeAnew,
            verdict => verdict,
        };
    }
    match (facts.slot, position.phase) {
        // Who dropped the slot, or had none yet, has nothing to compare this one with.
        (Some(_), Phase::Snapshot | Phase::Dropped) => Verdict::GoOn,
        (Some(slot), Phase::Streaming) if slot > position.lsn => {
            match facts.stored {
                // Debezium has used it in between.
                Some(stored) if stored > position.lsn && stored >= slot => Verdict::GoOn,
                _ => Verdict::MovedAhead { from: position.lsn, to: slot },
            }
        }
        (Some(_), Phase::Streaming) => Verdict::GoOn,
        (None, Phase::Dropped) if position.is_given_up() => Verdict::Accepted,
        (None, Phase::Dropped) => Verdict::GoOn,
        (None, Phase::Snapshot) if facts.begins_with_snapshot => Verdict::GoOn,
        (None, Phase::Snapshot | Phase::Streaming) => Verdict::Vanished { from: Some(position.lsn) },
    }
}

/// WAL of a server up to a position.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct WalHistory<'o> {
    pub(in crate::relay) origin: &'o Origin,
    pub(in crate::relay) end: Lsn,
}

impl WalHistory<'_> {
    /// Returns the difference that shows that the WAL of the server `now` is not the one that was read before, nor its
    /// continuation.
    pub(in crate::relay) fn difference_from(self, now: WalHistory<'_>) -> Option<String> {
        let (before, read_to) = (self.origin, self.end);
        let (now, wal_end) = (now.origin, now.end);
        if before.system_id != now.system_id {
            return Some(format!("its system identifier is {}, and was {}", now.system_id, before.system_id));
        }
        if now.timeline < before.timeline {
            return Some(format!("it is on timeline {}, and was on {}", now.timeline, before.timeline));
        }
        if now.timeline == before.timeline && wal_end.get().saturating_add(WAL_PAGE_BYTES) < read_to.get() {
            return Some(format!("its WAL ends at {wal_end}, and was read up to {read_to} before"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::{SystemId, TimelineId};

    fn origin(system_id: &str, timeline: u32) -> Origin {
        Origin { system_id: SystemId(system_id.to_owned()), timeline: TimelineId(timeline) }
    }

    fn kept(phase: Phase, lsn: u64) -> Position {
        let mut position = Position::at(Lsn::new(lsn), &origin("1", 2), "shop", Oid(5), "outbox");
        position.phase = phase;
        position
    }

    /// Inputs of a verdict besides position and slot.
    #[derive(Default, Clone, Copy)]
    struct Also {
        stored: Option<u64>,
        accept: Option<u64>,
        saw_slot: bool,
        drop_on_stop: bool,
        no_snapshot: bool,
        database: Option<Oid>,
        accepted: Option<u64>,
    }

    fn verdict(position: Option<&Position>, slot: Option<u64>, server: &Origin, also: Also) -> Verdict {
        judge(&Facts {
            position,
            origin: server,
            database: also.database.unwrap_or(Oid(5)),
            slot: slot.map(Lsn::new),
            wal_end: slot.map(|_| Lsn::new(100_000)),
            stored: also.stored.map(Lsn::new),
            accept: also.accept.map(Lsn::new),
            saw_slot: also.saw_slot,
            drop_on_stop: also.drop_on_stop,
            begins_with_snapshot: !also.no_snapshot,
        })
    }

    const NONE: Also = Also {
        stored: None,
        accept: None,
        saw_slot: false,
        drop_on_stop: false,
        no_snapshot: false,
        database: None,
        accepted: None,
    };

    #[test]
    fn the_slot_is_compared_with_the_position() {
        use Phase::{Dropped, Snapshot, Streaming};
        use Verdict::{Accepted, GoOn, MadeAnew};
        let ahead = Verdict::MovedAhead { from: Lsn::new(500), to: Lsn::new(600) };
        let gone = Verdict::Vanished { from: Some(Lsn::new(500)) };
        let stored = |lsn| Also { stored: Some(lsn), ..NONE };
        let anew = Also { database: Some(Oid(6)), ..NONE };
        let accept = |lsn| Also { accept: Some(lsn), ..NONE };
        let used = |lsn| Also { accept: Some(lsn), accepted: Some(lsn), ..NONE };
        let cases = [
            // Slot, phase, what else there is.
            (Some(500), Streaming, NONE, GoOn),
            (Some(400), Streaming, NONE, GoOn),
            (Some(600), Streaming, NONE, ahead.clone()),
            (Some(600), Streaming, Also { saw_slot: true, ..NONE }, ahead.clone()),
            (Some(600), Snapshot, NONE, GoOn),
            (Some(600), Dropped, NONE, GoOn),
            (None, Streaming, NONE, gone.clone()),
            (None, Streaming, Also { drop_on_stop: true, ..NONE }, gone.clone()),
            (None, Dropped, NONE, GoOn),
            (None, Dropped, Also { saw_slot: true, ..NONE }, GoOn),
            (None, Snapshot, NONE, GoOn),
            (None, Snapshot, Also { saw_slot: true, ..NONE }, GoOn),
            (None, Snapshot, Also { no_snapshot: true, ..NONE }, gone.clone()),
            // Debezium has moved the slot, or its offset has no position.
            (Some(600), Streaming, stored(600), GoOn),
            (Some(600), Streaming, stored(700), GoOn),
            (Some(600), Streaming, stored(599), ahead.clone()),
            (Some(600), Streaming, stored(500), ahead.clone()),
            // The value is that of one slot.
            (Some(600), Streaming, accept(600), Accepted),
            (Some(600), Streaming, accept(599), ahead.clone()),
            (Some(600), Streaming, accept(500), ahead.clone()),
            (Some(500), Streaming, accept(500), GoOn),
            (None, Streaming, accept(500), Accepted),
            (None, Streaming, accept(600), gone.clone()),
            // And it is believed once.
            (Some(600), Streaming, used(600), ahead.clone()),
            (Some(600), Streaming, Also { accept: Some(500), ..used(600) }, Accepted),
            (None, Streaming, used(500), gone),
            // The database is another one by now.
            (Some(600), Streaming, anew, MadeAnew),
            (None, Streaming, anew, MadeAnew),
            (None, Streaming, Also { saw_slot: true, ..anew }, Verdict::Vanished { from: None }),
        ];
        for (slot, phase, also, expected) in cases {
            let mut position = kept(phase, 500);
            position.accepted = also.accepted.map(Lsn::new).into_iter().collect();
            assert_eq!(verdict(Some(&position), slot, &origin("1", 2), also), expected, "{slot:?} {phase:?}");
        }
    }

    #[test]
    fn a_slot_that_the_user_has_given_up_is_created_by_the_next_client() {
        let mut given_up = kept(Phase::Streaming, 500).given_up();
        let now = origin("1", 2);
        assert_eq!(verdict(Some(&given_up), None, &now, NONE), Verdict::GoOn, "nobody has accepted anything");
        given_up.accepted.push(Lsn::new(500));
        assert_eq!(verdict(Some(&given_up), None, &now, NONE), Verdict::Accepted);
        assert_eq!(verdict(Some(&given_up), Some(600), &now, NONE), Verdict::GoOn);
    }

    #[test]
    fn without_a_position_only_what_this_process_saw_counts() {
        let saw = Also { saw_slot: true, ..NONE };
        let cases = [
            (Some(600), NONE, Verdict::GoOn),
            (Some(600), saw, Verdict::GoOn),
            (None, NONE, Verdict::GoOn),
            (None, saw, Verdict::Vanished { from: None }),
            (None, Also { drop_on_stop: true, ..saw }, Verdict::GoOn),
        ];
        for (slot, also, expected) in cases {
            assert_eq!(verdict(None, slot, &origin("1", 2), also), expected, "{slot:?}");
        }
    }

    #[test]
    fn another_history_is_reported_with_the_value_that_accepts_it() {
        let other = |difference: &str| Verdict::OtherHistory { difference: difference.to_owned() };
        let cases = [
            (500, Some(400), origin("9", 2), NONE, other("its system identifier is 9, and was 1")),
            (500, None, origin("9", 2), NONE, other("its system identifier is 9, and was 1")),
            (500, Some(400), origin("1", 1), NONE, other("it is on timeline 1, and was on 2")),
            (
                300_000,
                Some(400),
                origin("1", 2),
                NONE,
                other("its WAL ends at 0/186A0, and was read up to 0/493E0 before"),
            ),
            // Within a page, and after a failover.
            (108_000, Some(400), origin("1", 2), NONE, Verdict::GoOn),
            (300_000, Some(400), origin("1", 3), NONE, Verdict::GoOn),
            (
                500,
                Some(600),
                origin("1", 3),
                NONE,
                Verdict::MovedAhead { from: Lsn::new(500), to: Lsn::new(600) },
            ),
            (500, Some(400), origin("9", 2), Also { accept: Some(400), ..NONE }, Verdict::Accepted),
            (500, None, origin("9", 2), Also { accept: Some(500), ..NONE }, Verdict::Accepted),
        ];
        for (lsn, slot, server, also, expected) in cases {
            let position = kept(Phase::Streaming, lsn);
            assert_eq!(verdict(Some(&position), slot, &server, also), expected, "{lsn} {slot:?} {server:?}");
        }
    }
}
