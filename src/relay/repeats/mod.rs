//! What makes repeats known: where each event stands in the source, and what of it is in Kafka already.

mod position_text;
mod reading;
mod tails;

use std::time::Instant;

use super::options::{Guarantee, Options};
use crate::connect::record::ProducerRecord;
use crate::transaction::EventPosition;
use crate::wal::{Lsn, SystemId};
pub(super) use position_text::PositionText;
pub(super) use reading::{quiet_at, read};
#[cfg(test)]
pub(super) use tails::Found;
pub(super) use tails::{Presence, Question, Tail, Tails};

/// For one session. Without it being asked for, it does nothing.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// With `outboxd.identity.headers`: what a record's header says of its event.
    pub(super) text: Option<PositionText>,
    /// With `outboxd.delivery.guarantee=tail_dedupe`, until the stream is past what can come again.
    tails: Option<Box<Tails>>,
}

/// What a session has to know to tell repeats.
#[derive(Debug, Clone)]
pub(super) struct RepeatRange {
    pub(super) system_id: SystemId,
    /// Nothing that committed before this comes again.
    pub(super) from: Lsn,
    /// Nothing that committed behind this can have been sent before.
    pub(super) to: Lsn,
    /// From then on a predecessor that is gone appends no more, as far as can be told.
    pub(super) quiet_at: Option<Instant>,
}

impl Repeats {
    /// As the options ask for.
    pub(super) fn new(options: &Options, repeat_range: RepeatRange) -> Self {
        let text = options.identity_headers.then(|| PositionText::new(&repeat_range.system_id));
        let dedupes = options.guarantee == Guarantee::TailDedupe;
        Self { text, tails: Tails::new(repeat_range).filter(|_| dedupes).map(Box::new) }
    }

    /// Whether the event's record is in its topic already.
    pub(super) fn look(&mut self, record: &ProducerRecord<'_>, position: EventPosition) -> Presence {
        self.tails.as_mut().map_or(Presence::New, |tails| tails.look(record, position))
    }

    /// The end of a topic was read.
    pub(super) fn learn(&mut self, tail: Tail) {
        if let Some(tails) = &mut self.tails {
            tails.learn(tail);
        }
    }

    /// The stream is at `lsn`: what cannot come again any more is forgotten.
    pub(super) fn pass(&mut self, lsn: Lsn) {
        self.tails.take_if(|tails| tails.are_over(lsn));
    }
}
