//! Progress of a migration from a poller.

use serde::Serialize;

use super::site::{Site, TRIGGER};
use crate::error::{Diagnose as _, Exit};
use crate::postgres::HandoverPhase;

/// Progress of a migration, read from the existing objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// No object of the migration exists.
    NotBegun,
    /// A publication of this name exists for another purpose.
    Foreign,
    /// The publication exists.
    Published,
    /// The slot exists as well.
    Slotted,
    /// New rows are outboxd's; the poller has rows of its own left.
    Draining,
    /// The poller has no rows of its own left: outboxd sends.
    Drained,
    /// The publication has all rows, and the trigger still exists.
    Finishing,
    /// Nothing is left to do.
    Finished,
    /// New rows are the poller's again.
    Returned,
}

impl Site {
    pub(super) fn phase(&self) -> Phase {
        let Some(publication) = &self.publication else { return Phase::NotBegun };
        let Some(handover) = &publication.handover else { return Phase::Foreign };
        of(handover.phase, self.slot.is_some(), self.trigger.is_some())
    }
}

const fn of(kept: HandoverPhase, slot: bool, trigger: bool) -> Phase {
    match (kept, slot, trigger) {
        (HandoverPhase::Draining, false, false) => Phase::Published,
        (HandoverPhase::Draining, true, false) => Phase::Slotted,
        (HandoverPhase::Draining, _, true) => Phase::Draining,
        (HandoverPhase::Drained, ..) => Phase::Drained,
        (HandoverPhase::Finishing, _, true) => Phase::Finishing,
        (HandoverPhase::Finishing, _, false) => Phase::Finished,
        (HandoverPhase::Returned, ..) => Phase::Returned,
    }
}

/// Returns 0 for a healthy migration, 1 if it requires operator action, 7 if the slot is lost.
pub(super) fn exit(site: &Site) -> Exit {
    let has_slot =
        matches!(site.phase(), Phase::Slotted | Phase::Draining | Phase::Drained | Phase::Finishing);
    if has_slot && site.check_slot().is_err() {
        return Exit::SlotLost;
    }
    if attention(site).is_some() { Exit::Failed } else { Exit::Ok }
}

/// Returns the problem that requires operator action, if there is one, with its fix. `TARGET` in it stands for the target's arguments.
pub(super) fn attention(site: &Site) -> Option<String> {
    let is_flipped = matches!(site.phase(), Phase::Draining | Phase::Drained);
    if let Err(marked) = site.check_unmarked() {
        return Some(marked.fix().map_or_else(|| marked.to_string(), |fix| format!("{marked}. {fix}")));
    }
    match site.phase() {
        Phase::Draining | Phase::Drained if site.trigger == Some(false) => Some(format!(
            "the trigger is switched off: new rows are the poller's. To fix: ALTER TABLE {} ENABLE TRIGGER {TRIGGER}; or to go back: \
             outboxd migrate rollback TARGET",
            site.table.quoted()
        )),
        Phase::Drained if site.trigger.is_none() => Some(
            "the trigger is gone: new rows are the poller's. To fix: outboxd migrate rollback TARGET"
                .to_owned(),
        ),
        Phase::Drained if site.unsent.rows > 0 => Some(format!(
            "{} wait for the poller: some inserts bypass the trigger (session_replication_role=replica, or another \
             trigger that removes the mark)",
            site.unsent.shown()
        )),
        _ => {
            let lost = site.check_slot().err().filter(|_| is_flipped).map(|error| error.to_string());
            lost.or_else(|| {
                let run = site.run.as_ref()?;
                Some(format!("new rows are outboxd's, and no program sends them: {run}"))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_objects_determine_the_phase() {
        use HandoverPhase::{Drained, Draining, Finishing, Returned};
        let cases = [
            (Draining, false, false, Phase::Published),
            (Draining, true, false, Phase::Slotted),
            (Draining, true, true, Phase::Draining),
            (Draining, false, true, Phase::Draining),
            (Drained, true, true, Phase::Drained),
            (Finishing, true, true, Phase::Finishing),
            (Finishing, true, false, Phase::Finished),
            (Returned, true, false, Phase::Returned),
        ];
        for (kept, slot, trigger, phase) in cases {
            assert_eq!(of(kept, slot, trigger), phase, "{kept:?} {slot} {trigger}");
        }
    }
}
