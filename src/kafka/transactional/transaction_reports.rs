//! Outcomes of commits and aborts, on their way from the worker to the relay's core.

use crate::error::Diagnose as _;
use crate::kafka::consume::log_ends::LogEnd;
use crate::kafka::error::Error;
use crate::kafka::produce::delivery::Deliveries;

/// Reports of a producer of transactions besides the fate of records.
impl Deliveries {
    /// Returns the number of the producer that the reports are of.
    pub(crate) fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// Records the outcome of a commit or an abort. That of an earlier producer is ignored.
    pub(crate) fn ended(&self, generation: u64, outcome: Result<(), Error>) {
        let mut state = self.lock();
        if state.generation == generation {
            state.reports.ended = Some(outcome);
            state.reports.hidden = None;
        }
        drop(state);
        self.0.arrived.notify_one();
    }

    /// Records that the connection to the coordinator of transactions has broken.
    pub(crate) fn lost_coordinator(&self) {
        self.lock().reports.coordinator_lost = true;
        self.0.arrived.notify_one();
    }

    /// Resets the state of the last producer, because a new one has begun.
    pub(in crate::kafka) fn has_begun(&self) {
        let mut state = self.lock();
        state.reports.coordinator_lost = false;
        state.log_ends.record_changes();
    }

    /// Returns the last records of the open transaction, all of which are acknowledged. Later ones belong to
    /// the next.
    pub(in crate::kafka) fn take_last_records(&self) -> Vec<LogEnd> {
        self.lock().log_ends.take_changes()
    }

    /// Records that something undecided hides records, or that nothing does any more.
    pub(in crate::kafka) fn hidden(&self, generation: u64, undecided: Option<&Error>) {
        let mut state = self.lock();
        if state.generation == generation {
            state.reports.hidden = undecided.map(cause_and_fix);
        }
        drop(state);
        self.0.arrived.notify_one();
    }

    /// Records that the producer cannot continue.
    pub(crate) fn broke(&self, reason: String) {
        self.lock().reports.fatal.get_or_insert(reason);
        self.0.arrived.notify_one();
    }
}

fn cause_and_fix(error: &Error) -> String {
    error.fix().map_or_else(|| error.to_string(), |fix| format!("{error}; {fix}"))
}
