//! Refusals of a start: the events that explain one, and the reaction of the operator.

use crate::error::Diagnose as _;
use crate::relay::error::Error;
use crate::relay::simulation::process::Process;
use crate::relay::simulation::world::World;
use crate::wal::Lsn;

/// Reasons for which a relay may refuse, from what has really happened.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::relay::simulation) struct Causes {
    /// The slot is not where relays have left it.
    pub(super) touched: bool,
    /// The history is not that of what is known.
    pub(super) other_history: bool,
}

/// Returns whether a start refuses the slot or the server that it finds.
pub(in crate::relay::simulation) const fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::OtherHistory { .. } | Error::Postgres(crate::postgres::Error::SlotLost { .. }))
}

impl<'p> Process<'p> {
    /// Returns whether past events explain why a start is refused.
    pub(in crate::relay::simulation) fn is_explained(&self, error: &Error, world: &World<'p>) -> bool {
        match error {
            Error::OtherHistory { .. } => self.causes.other_history,
            // Without a position no relay knows which client has moved the slot.
            _ => {
                let truth = &world.kafka.borrow().truth;
                self.causes.touched || !truth.keeps_positions && truth.identities.streaming != self.number
            }
        }
    }

    /// Sends what is in the table, and accepts the value of the error, as an operator would; a slot that is
    /// gone is created, and its position is accepted.
    pub(in crate::relay::simulation) fn accept(&self, error: &Error, world: &mut World<'p>) {
        let World { server, kafka, accept, rng, .. } = world;
        let truth = &mut kafka.borrow_mut().truth;
        if server.dropped {
            server.make_slot();
        }
        let value = value_in(error).unwrap_or(Lsn::new(server.confirmed));
        let used = truth.position.as_ref().map(|kept| kept.accepted.clone()).unwrap_or_default();
        // Each is believed once, and another slot has another.
        while used.contains(&value) && used.contains(&Lsn::new(server.confirmed)) {
            server.wal.write_noise(rng);
            server.make_slot();
            truth.give_up_before(server.confirmed);
        }
        *accept = Some(if used.contains(&value) { Lsn::new(server.confirmed) } else { value });
        if self.causes.touched {
            truth.give_up_before(server.confirmed);
        }
    }
}

/// Returns the value of `outboxd.position.accept` that the error names for an existing slot.
fn value_in(error: &Error) -> Option<Lsn> {
    let fix = error.fix().filter(|fix| !fix.contains("snapshot.mode=no_data"))?;
    let (_, value) = fix.split_once("outboxd.position.accept=")?;
    let is_of_lsn = |c: char| c.is_ascii_hexdigit() || c == '/';
    value.split(|c| !is_of_lsn(c)).next()?.parse().ok()
}
