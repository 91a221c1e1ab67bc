//! Begin and commit of a transaction, with the records of `provide.transaction.metadata`.

use crate::change::End;
use crate::connect::converter::Destination;
use crate::kafka::Transport;
use crate::pgoutput::{Begin, Commit, Relation};
use crate::relay::delivery::needs::Need;
use crate::relay::error::{Error, RowName};
use crate::relay::pipeline::feed::outgoing::Unmade;
use crate::relay::pipeline::feed::{Feed, Outcome};
use crate::relay::time::clock::Now;
use crate::transaction::EventPosition;
use crate::wal::Lsn;

impl<T: Transport> Feed<'_, T> {
    /// Returns the need for the description of a relation, as the open transaction has left it.
    pub(in crate::relay) fn asks_for(&self, relation: Box<Relation>) -> Need {
        Need::Table { relation, within: self.place.within() }
    }

    /// Sends the begin of a transaction, if transaction metadata is enabled.
    pub(in crate::relay::pipeline::feed) fn report_begin(
        &mut self,
        begin: &Begin,
        lsn: Lsn,
        now: Now,
    ) -> Result<Outcome, Error> {
        if self.transactions.is_none() || self.earlier.passing {
            return Ok(Outcome::None);
        }
        self.report(End::Begin, begin, lsn, now)
    }

    /// Ends a transaction, once the record of its end is handed over.
    pub(in crate::relay::pipeline::feed) fn end(
        &mut self,
        commit: Commit,
        lsn: Lsn,
        now: Now,
    ) -> Result<Outcome, Error> {
        let Some(begin) = self.place.open.filter(|_| self.transactions.is_some() && !self.earlier.passing)
        else {
            return self.commit(&commit).map(Outcome::Committed);
        };
        let tally = std::mem::take(&mut self.place.tally);
        let told = self.report(End::End(&tally), &begin, lsn, now);
        self.place.tally = tally;
        match told? {
            Outcome::None => self.commit(&commit).map(Outcome::Committed),
            outcome @ Outcome::Unsent(_) => {
                self.place.ends_with_event = Some(commit);
                Ok(outcome)
            }
            outcome => Ok(outcome),
        }
    }

    /// Hands over the record of one end of the open transaction.
    fn report(&mut self, end: End<'_>, begin: &Begin, lsn: Lsn, now: Now) -> Result<Outcome, Error> {
        let Some(changes) = self.transactions else { return Ok(Outcome::None) };
        let position = match end {
            End::Begin => EventPosition::begin(begin.final_lsn),
            End::End(_) => EventPosition::end(begin.final_lsn),
        };
        self.out.flight.count_event(position);
        if self.out.flight.has(position.end_of_event())? {
            return Ok(Outcome::None);
        }
        let (scratch, schemas) = self.encoder.parts();
        let topic = changes.transaction_topic();
        let mut into = Destination { scratch, topic, schemas };
        let unmade = match changes.transaction_record(end, begin, lsn, now.unix_ms(), &mut into) {
            Ok(None) => return Ok(Outcome::None),
            Ok(Some(records)) => {
                return records.lend(self.encoder.scratch(), |records| self.out.send(records, position, now));
            }
            Err(source) => Unmade::of_row(source, topic, RowName::default, position),
        };
        self.out.give_up(unmade.or_refused(&mut self.answers), || None, position, now)
    }
}
