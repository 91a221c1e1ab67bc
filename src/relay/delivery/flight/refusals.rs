//! Records that Kafka refused in a session, and which of them is the cause of its end.

use crate::ack::Ledger;
use crate::kafka::{REFUSED_MAX, Rejection, Reports};
use crate::relay::delivery::dead_letters::Refused;

/// Records that Kafka refused in a session.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// First one that is not a mere consequence of another: the reason for which the session ends.
    first: Option<Rejection>,
    /// The producer's fatal error.
    fatal: Option<String>,
    /// All that were refused for their own sake, if the dead-letter topic needs them.
    refused: Vec<Refused>,
    remembers: bool,
}

impl Refusals {
    pub(super) fn new(remembers: bool) -> Self {
        Self { remembers, ..Self::default() }
    }

    /// Records that the producer refuses a record.
    pub(super) fn of_producer(&mut self, rejection: Rejection, ledger: &Ledger) {
        self.remember(vec![rejection.clone()], ledger);
        if self.first.is_none() || !rejection.is_consequence() {
            self.first = Some(rejection);
        }
    }

    /// Records the refusals of delivery reports.
    pub(super) fn take(&mut self, reports: &mut Reports, ledger: &Ledger) {
        self.remember(std::mem::take(&mut reports.refused), ledger);
        self.fatal = self.fatal.take().or(reports.fatal.take());
        if self.first.as_ref().is_none_or(Rejection::is_consequence) {
            self.first = reports.rejection.take().or(self.first.take());
        }
    }

    /// Returns the reason of the first, or the producer's fatal error.
    pub(super) fn reason(&self) -> Option<String> {
        self.first.as_ref().map(|first| first.reason.clone()).or_else(|| self.fatal.clone())
    }

    /// Returns whether the producer has failed.
    pub(super) const fn has_failed(&self) -> bool {
        match &self.first {
            Some(first) => !first.is_doubtful(),
            None => self.fatal.is_some(),
        }
    }

    pub(super) const fn take_first(&mut self) -> Option<Rejection> {
        self.first.take()
    }

    pub(super) fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Returns whether the first is a record that was acknowledged and is perhaps not in the log.
    pub(super) fn is_doubtful(&self) -> bool {
        self.first.as_ref().is_some_and(Rejection::is_doubtful)
    }

    fn remember(&mut self, rejections: Vec<Rejection>, ledger: &Ledger) {
        if !self.remembers {
            return;
        }
        let room = REFUSED_MAX.saturating_sub(self.refused.len());
        let of_events = rejections
            .into_iter()
            .filter(|rejection| !rejection.ticket.is_of_no_transaction() && !rejection.is_consequence());
        for rejection in of_events.take(room) {
            let commit_lsn = ledger.commit_lsn(rejection.ticket).unwrap_or_default();
            self.refused.push(Refused { commit_lsn, rejection });
        }
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::error::RDKafkaErrorCode as Code;

    use super::*;
    use crate::kafka::Cause;

    fn rejection(code: Code) -> Rejection {
        Rejection { cause: Cause::Code(code), ..Rejection::of_topic("t", code.to_string()) }
    }

    /// With transactions the producer refuses what comes behind a failed record, and the report may be later than that.
    #[test]
    fn the_record_that_failed_is_the_cause_also_when_its_report_comes_late() {
        let ledger = Ledger::new(crate::wal::Lsn::ZERO);
        let (behind, cause) = (rejection(Code::State), rejection(Code::MessageSizeTooLarge));
        let mut refusals = Refusals::new(true);
        refusals.of_producer(behind.clone(), &ledger);
        let mut reports =
            Reports { rejection: Some(cause.clone()), refused: vec![cause.clone()], ..Reports::default() };
        refusals.take(&mut reports, &ledger);
        refusals.of_producer(behind, &ledger);
        assert_eq!(refusals.take_first(), Some(cause));
        assert_eq!(refusals.refused().len(), 1);
    }
}
