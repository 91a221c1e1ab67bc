//! Environment of the relays of a simulation, and what they share.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use fastrand::Rng;

use super::bug::Bug;
use super::kafka::pipe::Kafka;
use super::postgres::server::Server;
use super::postgres::wal;
use crate::outbox::MessageOutbox;
use crate::postgres::{SlotOptions, TableFilter};
use crate::relay::capture::route::Route;
use crate::relay::options::Options;
use crate::relay::time::clock::Now;
use crate::source_offset::SourceOffset;
use crate::telemetry::{Metrics, Status};
use crate::wal::Lsn;

/// Objects that all relays share, and that are expensive to make.
pub(super) struct Bench {
    pub(super) route: Route,
    /// Messages of an outbox.
    pub(super) messages: Option<MessageOutbox>,
    /// Filters of captured tables: the list, and none.
    pub(super) filters: [TableFilter; 2],
    pub(super) status: Status,
    pub(super) metrics: Metrics,
    pub(super) options: Options,
    pub(super) slot: SlotOptions,
    /// True if a run prints what happens.
    pub(super) tells: bool,
}

/// Environment of the relays of a simulation.
pub(super) struct World<'p> {
    pub(super) bench: &'p Bench,
    pub(super) bug: Option<Bug>,
    pub(super) rng: Rng,
    pub(super) now: Instant,
    pub(super) began: Instant,
    pub(super) server: Server,
    pub(super) kafka: Rc<RefCell<Kafka>>,
    /// Offset that is stored for Debezium.
    pub(super) offset: Option<SourceOffset>,
    /// `outboxd.position.accept` of every process that begins from now on.
    pub(super) accept: Option<Lsn>,
    /// Connections to Kafka break.
    pub(super) clients_break: bool,
}

impl Bench {
    /// Returns whether rows become change events.
    pub(super) const fn sends_changes(&self) -> bool {
        matches!(self.route, Route::Changes(_))
    }
}

impl World<'_> {
    /// Returns the time. The clock stands still, except for change events, which must not be recognised by
    /// it.
    pub(super) fn now(&self) -> Now {
        let turns =
            if self.bench.sends_changes() { self.now.duration_since(self.began).as_millis() } else { 0 };
        Now { instant: self.now, unix_us: wal::BEGAN_UNIX_US + i64::try_from(turns).unwrap() }
    }
}
