//! Detection of repeats: each event's position in the source, and the records that are in Kafka already.

mod position_text;
mod reading;
mod tails;

use std::time::Instant;

use crate::connect::record::ProducerRecord;
use crate::relay::options::{Guarantee, Options};
use crate::transaction::EventPosition;
use crate::wal::{Lsn, SystemId};
pub(in crate::relay) use position_text::PositionText;
pub(in crate::relay) use reading::{quiet_at, read};
#[cfg(test)]
pub(in crate::relay) use tails::Found;
pub(in crate::relay) use tails::{Presence, Question, Tail, Tails};

/// Repeats of one session. Disabled, it does nothing.
#[derive(Debug, Default)]
pub(in crate::relay) struct Repeats {
    /// Writer of the header `outboxd.position`, with `outboxd.identity.headers`.
    pub(in crate::relay) text: Option<PositionText>,
    /// Tails of topics, with `outboxd.delivery.guarantee=tail_dedupe`, until the stream is past what can be
    /// repeated.
    tails: Option<Box<Tails>>,
}

/// Range of the stream that can be repeated.
#[derive(Debug, Clone)]
pub(in crate::relay) struct RepeatRange {
    pub(in crate::relay) system_id: SystemId,
    /// Nothing that committed before this is repeated.
    pub(in crate::relay) from: Lsn,
    /// Nothing that committed behind this can have been sent before.
    pub(in crate::relay) to: Lsn,
    /// Time from which a predecessor that is gone is expected to append nothing more.
    pub(in crate::relay) quiet_at: Option<Instant>,
}

impl Repeats {
    /// Creates it according to the options.
    pub(in crate::relay) fn new(options: &Options, repeat_range: RepeatRange) -> Self {
        let text = options.identity_headers.then(|| PositionText::new(&repeat_range.system_id));
        let dedupes = options.guarantee == Guarantee::TailDedupe;
        Self { text, tails: Tails::new(repeat_range).filter(|_| dedupes).map(Box::new) }
    }

    /// Returns whether the event's record is in its topic already.
    pub(in crate::relay) fn look(
        &mut self,
        record: &ProducerRecord<'_>,
        position: EventPosition,
    ) -> Presence {
        self.tails.as_mut().map_or(Presence::New, |tails| tails.look(record, position))
    }

    /// Stores the tail of a topic.
    pub(in crate::relay) fn learn(&mut self, tail: Tail) {
        if let Some(tails) = &mut self.tails {
            tails.learn(tail);
        }
    }

    /// Forgets what cannot be repeated any more, with the stream at `lsn`.
    pub(in crate::relay) fn pass(&mut self, lsn: Lsn) {
        self.tails.take_if(|tails| tails.are_over(lsn));
    }
}
