//! A publication that is without tables for a while, with rows written meanwhile. The relay must report it, and the operator acts.

use std::time::{Duration, Instant};

use crate::course::operations::retried;
use crate::course::trial::Trial;
use crate::plan::feature::{Fault, Feature};
use crate::planted::Planted;
use crate::support::wait::{DEADLINE, eventually, let_pass};

/// A relay that streams reports a gap within this time, unless each session ends soon, such as by records that are too large.
const PLANTED_REPORT_MAX: Duration = Duration::from_secs(20);
const POSITIONS: &str = "__outboxd-positions";

/// Knowledge of an operator about the gap of a service.
#[derive(Debug, Default)]
pub(crate) struct Gap {
    pub(crate) is_begun: bool,
    /// The operator accepts the position instead of sending rows again.
    accepts: bool,
    has_stopped: bool,
    /// A stop without a position to accept: each start must repeat it, with one.
    awaits_stop: bool,
    pub(crate) is_resent: bool,
    /// Number of the alarms when it was settled. No later one is about it.
    pub(crate) settled_at: Option<usize>,
}

impl Gap {
    fn begin(&mut self, accepts: bool) {
        (self.is_begun, self.accepts) = (true, accepts);
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.is_begun && self.settled_at.is_none()
    }

    pub(crate) fn settle(&mut self, is_resent: bool) {
        self.is_resent = is_resent;
    }

    /// Returns the settings of the next start behind a stop; none if the stop must come again.
    pub(crate) fn remedy(&mut self, position: Option<String>) -> Vec<(&'static str, String)> {
        self.has_stopped = true;
        self.awaits_stop = self.accepts && position.is_none();
        match position {
            Some(position) if self.accepts => vec![("outboxd.position.accept", position)],
            None if self.accepts => Vec::new(),
            _ => {
                self.is_resent = true;
                vec![("snapshot.mode", "always".to_owned())]
            }
        }
    }

    pub(crate) fn complaint(&self) -> Option<String> {
        self.awaits_stop.then(|| "forgotten: a stop that requires the operator did not come again".to_owned())
    }
}

impl Trial<'_> {
    /// Waits until a process has stored how the tables are published. What changes before that is not noticed.
    pub(super) fn wait_until_watched(&self) {
        let slot = format!("\"slot\":\"{}\"", self.services[0].name);
        let is_proof = |value: &str| value.contains(&slot) && value.contains("\"published\":");
        eventually(DEADLINE, "it is stored how the tables are published", || {
            self.world.kafka.records(POSITIONS).iter().any(|record| is_proof(record.value()))
        });
    }

    /// Waits until a process has stored that the gap is settled. One that is killed before leaves it to the next start.
    fn wait_until_settled(&self) {
        if self.planted.is_some() || self.services[0].given_up.is_some() {
            return;
        }
        let slot = format!("\"slot\":\"{}\"", self.services[0].name);
        eventually(DEADLINE, "it is stored that the gap is settled", || {
            let records = self.world.kafka.records(POSITIONS);
            let last = records.iter().rfind(|record| record.value().contains(&slot));
            last.is_some_and(|record| !record.value().contains("\"cause\":\"unpublished\""))
        });
    }

    /// Changes the publication of the first service and changes it back, while its relay runs or while it does not.
    pub(super) fn make_gap(&mut self) {
        let service = &mut self.services[0];
        if service.given_up.is_some() {
            return;
        }
        service.gap.begin(self.site.draw.has(Feature::GapAccepted));
        let ends =
            service.relay().is_running() && self.rng.bool() && self.planted != Some(Planted::StopErased);
        if ends {
            // A frozen one would not notice a stop.
            self.services[0].relay().kill();
        }
        let (place, publication) = (self.site.gap_place(), self.services[0].name.clone());
        retried(&self.site.db, &format!("CALL begin_gap('{publication}', '{place}')"));
        self.pause(200..1500);
        retried(&self.site.db, &format!("CALL end_gap('{publication}', '{place}')"));
        self.note(if ends {
            "the publication was changed while no relay ran"
        } else {
            "the publication was changed"
        });
        if ends {
            self.services[0].start_again();
        }
    }

    /// Waits until the relay has reported the gap, and acts on it.
    pub(super) fn close_gap(&mut self, fault: Option<Fault>) {
        if self.planted == Some(Planted::StopErased) {
            self.erase_stop();
        }
        self.recover("the change of the publication");
        let began = Instant::now();
        while !self.services[0].gap.has_stopped && self.services[0].suspicion().is_none() {
            self.services[0].look_after(&self.world.kafka);
            if self.services[0].given_up.is_some() {
                return;
            }
            if began.elapsed() > if self.planted.is_some() { PLANTED_REPORT_MAX } else { DEADLINE } {
                return self
                    .complaints
                    .push(format!("unreported: the publication was changed under {fault:?}"));
            }
            let_pass(Duration::from_millis(50));
        }
        self.recover("a stop for the publication");
        if let Some(accept) = self.services[0].suspicion() {
            let mode = ("snapshot.mode", "always".to_owned());
            let accepts = self.site.draw.has(Feature::GapAccepted);
            let (key, value) = if accepts { ("outboxd.position.accept", accept) } else { mode };
            let code = self.services[0].stop();
            self.note(&format!("stopped to settle the suspicion with {key}: exit {code}"));
            self.wait_until_free();
            self.services[0].settle_suspicion(&self.world.kafka, key, &value);
        }
        self.recover("the gap in the publication");
        self.wait_until_settled();
    }
}
