use super::Error;
use super::delivery::Deliveries;

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
        self.lock().reports.coordinator_lost = false;
    }

    /// The producer cannot go on.
    pub(crate) fn broke(&self, reason: String) {
        self.lock().reports.fatal.get_or_insert(reason);
        self.0.arrived.notify_one();
    }
}
