use super::delivery::Deliveries;
use super::error::Error;
use super::log_ends::LogEnd;
use crate::error::Diagnose as _;

/// What a producer of transactions reports besides the fate of records.
impl Deliveries {
    /// Which producer the reports are of.
    pub(crate) fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// A Kafka transaction was committed or aborted, or was to be. What an earlier producer has to say is not heard.
    pub(crate) fn ended(&self, generation: u64, outcome: Result<(), Error>) {
        let mut state = self.lock();
        if state.generation == generation {
            state.reports.ended = Some(outcome);
            state.reports.hidden = None;
        }
        drop(state);
        self.0.arrived.notify_one();
    }

    /// The connection to the coordinator of transactions has broken.
    pub(crate) fn lost_coordinator(&self) {
        self.lock().reports.coordinator_lost = true;
        self.0.arrived.notify_one();
    }

    /// The producer has begun: what it went through before is over.
    pub(super) fn has_begun(&self) {
        let mut state = self.lock();
        state.reports.coordinator_lost = false;
        state.log_ends.keep_fresh();
    }

    /// The last records of the open transaction, all of which are acknowledged. What comes after this is of the next.
    pub(super) fn take_last_records(&self) -> Vec<LogEnd> {
        self.lock().log_ends.take_fresh()
    }

    /// Something undecided hides records of ours, or nothing does any more.
    pub(super) fn hidden(&self, generation: u64, undecided: Option<&Error>) {
        let mut state = self.lock();
        if state.generation == generation {
            state.reports.hidden = undecided.map(told);
        }
        drop(state);
        self.0.arrived.notify_one();
    }

    /// The producer cannot go on.
    pub(crate) fn broke(&self, reason: String) {
        self.lock().reports.fatal.get_or_insert(reason);
        self.0.arrived.notify_one();
    }
}

fn told(error: &Error) -> String {
    error.cure().map_or_else(|| error.to_string(), |cure| format!("{error}; {cure}"))
}
