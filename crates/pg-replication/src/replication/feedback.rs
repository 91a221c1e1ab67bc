//! Status updates to the walsender.

use std::time::{Duration, Instant};

use super::StandbyStatusUpdate;
use crate::wal::{Lsn, PgTimestamp};

/// Schedule and content of the status updates sent to the walsender.
///
/// # Invariants
/// The flush position never decreases, and never exceeds the position received on this connection.
#[derive(Debug)]
pub struct Feedback {
    interval: Duration,
    received: Lsn,
    flushed: Lsn,
    told: Lsn,
    due: Instant,
    asked: bool,
    /// Maximum silence of PostgreSQL before a reply is requested, and again before the connection counts as lost.
    patience: Duration,
    heard: Instant,
    /// Time of the reply request, if nothing was received since then.
    pinged: Option<Instant>,
}

/// Lower limit of the patience: PostgreSQL may be busy for long. TCP alone does not detect that a proxy in between has lost the
/// other connection.
const PATIENCE_MIN: Duration = Duration::from_secs(60);

impl Feedback {
    /// Starts at the slot's `confirmed_flush_lsn`; an update is due immediately.
    #[must_use]
    pub const fn new(interval: Duration, confirmed: Lsn, now: Instant) -> Self {
        Self {
            interval,
            received: confirmed,
            flushed: confirmed,
            told: confirmed,
            due: now,
            asked: false,
            patience: PATIENCE_MIN,
            heard: now,
            pinged: None,
        }
    }

    /// Sets the patience to the `timeout` after which PostgreSQL itself drops a silent client, but at least one minute.
    #[must_use]
    pub fn with_patience(self, timeout: Duration) -> Self {
        Self { patience: timeout.max(PATIENCE_MIN), ..self }
    }

    /// Restarts the measurement of silence: PostgreSQL sent something, or nothing was read from the connection.
    pub const fn restart_silence(&mut self, now: Instant) {
        self.heard = now;
        self.pinged = None;
    }

    /// Reports whether PostgreSQL has not replied to a reply request in time.
    #[must_use]
    pub fn is_silent(&self, now: Instant) -> bool {
        self.pinged.is_some_and(|pinged| now.saturating_duration_since(pinged) >= self.patience)
    }

    /// Records that PostgreSQL has sent everything before `lsn`.
    pub fn received(&mut self, lsn: Lsn) {
        self.received = self.received.max(lsn);
    }

    /// Records that PostgreSQL requests a reply.
    pub const fn asked(&mut self) {
        self.asked = true;
    }

    /// Records that everything before `lsn` is acknowledged.
    ///
    /// A position beyond the received one is reduced to it, because PostgreSQL would accept it.
    pub fn flushed(&mut self, lsn: Lsn) {
        debug_assert!(lsn <= self.received, "confirming {lsn}, which was not received");
        self.flushed = self.flushed.max(lsn.min(self.received));
    }

    /// Returns the position that may be confirmed.
    #[must_use]
    pub const fn confirmable(&self) -> Lsn {
        self.flushed
    }

    /// Returns the position that was confirmed last.
    #[must_use]
    pub const fn confirmed(&self) -> Lsn {
        self.told
    }

    /// Returns the position up to which PostgreSQL has sent.
    #[must_use]
    pub const fn last_received(&self) -> Lsn {
        self.received
    }

    /// Returns the time of the next update if no event requires one earlier.
    #[must_use]
    pub const fn due(&self) -> Instant {
        self.due
    }

    /// Returns the update to send now, if one is due: after a request or progress, at the interval, or to request a reply.
    pub fn poll(&mut self, now: Instant, clock: PgTimestamp) -> Option<StandbyStatusUpdate> {
        let ping = self.pinged.is_none() && now.saturating_duration_since(self.heard) >= self.patience;
        let wanted = self.asked || self.flushed > self.told || now >= self.due || ping;
        if ping {
            self.pinged = Some(now);
        }
        wanted.then(|| StandbyStatusUpdate { reply_requested: ping, ..self.update(now, clock) })
    }

    fn update(&mut self, now: Instant, clock: PgTimestamp) -> StandbyStatusUpdate {
        self.asked = false;
        self.told = self.flushed;
        self.due = now.checked_add(self.interval).unwrap_or(now);
        StandbyStatusUpdate {
            written: self.received,
            flushed: self.flushed,
            sent_at: clock,
            reply_requested: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLOCK: PgTimestamp = PgTimestamp(0);

    fn feedback(now: Instant) -> Feedback {
        Feedback::new(Duration::from_secs(10), Lsn::new(100), now)
    }

    proptest! {
        /// Holds for any received and acknowledged positions, and any times of the updates.
        #[test]
        fn what_is_reported_never_goes_back_nor_passes_what_was_received(
            steps in prop::collection::vec((any::<bool>(), 0u64..500, 0u64..30), 0..100),
        ) {
            let mut now = Instant::now();
            let mut feedback = feedback(now);
            let mut told = Lsn::ZERO;
            for (receives, lsn, seconds) in steps {
                now += Duration::from_secs(seconds);
                match receives {
                    true => feedback.received(Lsn::new(lsn)),
                    false => feedback.flushed(Lsn::new(lsn).min(feedback.last_received())),
                }
                let (due, behind) = (now >= feedback.due(), feedback.confirmable() > feedback.confirmed());
                let update = feedback.poll(now, CLOCK);
                let asked = update.as_ref().is_some_and(|update| update.reply_requested);
                prop_assert_eq!(update.is_some(), due || behind || asked);
                let Some(update) = update else { continue };
                prop_assert!(told <= update.flushed && update.flushed <= update.written);
                prop_assert_eq!((feedback.confirmed(), feedback.last_received()), (update.flushed, update.written));
                told = update.flushed;
            }
        }
    }

    #[test]
    fn an_update_is_due_at_first_on_request_on_progress_and_after_the_interval() {
        let start = Instant::now();
        let mut feedback = feedback(start);
        assert!(feedback.poll(start, CLOCK).is_some());
        assert!(feedback.poll(start, CLOCK).is_none());

        feedback.asked();
        assert!(feedback.poll(start, CLOCK).is_some());

        feedback.received(Lsn::new(300));
        assert!(feedback.poll(start, CLOCK).is_none());
        feedback.flushed(Lsn::new(200));
        let update = feedback.poll(start, CLOCK).unwrap();
        assert_eq!((update.written, update.flushed), (Lsn::new(300), Lsn::new(200)));

        let later = start + Duration::from_secs(10);
        assert!(feedback.poll(later - Duration::from_millis(1), CLOCK).is_none());
        assert!(feedback.poll(later, CLOCK).is_some());
    }

    #[test]
    fn a_silent_server_is_asked_once_and_then_given_up() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let asks = |feedback: &mut Feedback, now| {
            feedback.poll(now, CLOCK).is_some_and(|update| update.reply_requested)
        };
        let mut feedback = feedback(start).with_patience(Duration::from_secs(90));
        assert!(!asks(&mut feedback, after(89)));
        assert!(asks(&mut feedback, after(90)));
        assert!(!asks(&mut feedback, after(100)), "it is asked once");
        assert!(!feedback.is_silent(after(179)));
        assert!(feedback.is_silent(after(180)));
        feedback.restart_silence(after(181));
        assert!(!feedback.is_silent(after(270)));
        assert!(!asks(&mut feedback, after(270)) && asks(&mut feedback, after(271)));
        // After a pause of our own it is asked first.
        feedback.restart_silence(after(300));
        assert!(!feedback.is_silent(after(9000)));
        assert!(asks(&mut feedback, after(9000)) && !feedback.is_silent(after(9001)));
    }

    #[test]
    fn a_server_without_patience_is_given_a_minute() {
        let start = Instant::now();
        for timeout in [Duration::ZERO, Duration::from_secs(1)] {
            let mut feedback = feedback(start).with_patience(timeout);
            let mut asked = |seconds| {
                let update = feedback.poll(start + Duration::from_secs(seconds), CLOCK);
                update.is_some_and(|update| update.reply_requested)
            };
            assert_eq!([asked(59), asked(60)], [false, true], "{timeout:?}");
        }
    }

    #[test]
    fn the_flush_position_never_goes_back() {
        let now = Instant::now();
        let mut feedback = feedback(now);
        feedback.received(Lsn::new(300));
        feedback.flushed(Lsn::new(250));
        feedback.flushed(Lsn::new(200));
        assert_eq!(feedback.poll(now, CLOCK).unwrap().flushed, Lsn::new(250));
    }
}
