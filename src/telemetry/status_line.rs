//! The live line on a terminal.
//!
//! It is drawn by a thread of its own, once a second: a terminal that is stopped holds up that thread and the log's,
//! never the relay.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::age::Age;
use super::escape::Escaping;
use super::metrics::SlotDanger;
use super::status::{Component, Condition, Phase, Snapshot, Status};

const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Length of a snapshot's bar.
const BAR_STEPS: u64 = 20;

/// Number of past seconds for the shown rate.
const RATE_WINDOW_TICKS: usize = 5;

/// The line at the foot of a terminal. Not there until it is shown; gone when dropped.
#[derive(Debug)]
pub(crate) struct StatusLine {
    bar: ProgressBar,
    refresher: Option<Refresher>,
}

#[derive(Debug)]
struct Refresher {
    /// Dropped, it ends the thread.
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl StatusLine {
    /// Creates a line that is not shown yet.
    #[must_use]
    pub(crate) fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), refresher: None }
    }

    /// Shows the status, and keeps it fresh, when standard error is a terminal. `route` names source and
    /// destination: `orders/public.outbox → kafka`.
    ///
    /// # Errors
    /// When the thread that refreshes the line cannot be started.
    pub(crate) fn show(&mut self, status: Status, route: String) -> io::Result<()> {
        if !io::stderr().is_terminal() {
            return Ok(());
        }
        let bar = self.bar.clone();
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        let (stop, stopped) = mpsc::sync_channel(1);
        let refresh = move || {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            let mut rate = Rate::default();
            loop {
                let state = status.snapshot();
                let rate = rate.next(state.progress.events, Instant::now());
                let line =
                    Line { state: &state, route: &route, rate, now: (Instant::now(), SystemTime::now()) };
                bar.set_message(line.to_string());
                if stopped.recv_timeout(REFRESH_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("status-line".to_owned()).spawn(refresh)?;
        self.refresher = Some(Refresher { stop, thread });
        Ok(())
    }

    /// Returns a writer to standard error that does not disturb the line.
    pub(super) fn log_writer(&self) -> AboveLine {
        AboveLine(self.bar.clone())
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if let Some(Refresher { stop, thread }) = self.refresher.take() {
            drop(stop);
            drop(thread.join());
            self.bar.finish_and_clear();
        }
    }
}

/// Writes above the line.
#[derive(Debug)]
pub(super) struct AboveLine(ProgressBar);

impl Write for AboveLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.suspend(|| io::stderr().write_all(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Events a second over the last seconds.
#[derive(Debug, Default)]
struct Rate(VecDeque<(Instant, u64)>);

impl Rate {
    fn next(&mut self, events: u64, now: Instant) -> f64 {
        let (then, before) = self.0.front().copied().unwrap_or((now, events));
        self.0.push_back((now, events));
        if self.0.len() > RATE_WINDOW_TICKS {
            self.0.pop_front();
        }
        let seconds = now.saturating_duration_since(then).as_secs_f64();
        let new = u32::try_from(events.saturating_sub(before)).unwrap_or(u32::MAX);
        if seconds > 0.0 { f64::from(new) / seconds } else { 0.0 }
    }
}

/// Contents of the line.
struct Line<'a> {
    state: &'a Snapshot,
    route: &'a str,
    rate: f64,
    now: (Instant, SystemTime),
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (symbol, phase) = (symbol(&self.state.phase), &self.state.phase);
        write!(f, "{symbol} {phase}  ")?;
        write!(Escaping(&mut *f), "{}", self.route)?;
        if let Phase::StandingBy(holder) = phase {
            return write!(Escaping(f), "  slot held by {holder}");
        }
        for component in Component::ALL {
            if let Condition::Down { reason, since, .. } = self.state.condition(component) {
                let outage = Age(self.now.0.saturating_duration_since(*since));
                return write!(Escaping(f), "  {component} down for {outage}: {reason}");
            }
        }
        self.write_progress(f)
    }
}

impl Line<'_> {
    fn write_progress(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.state.tables_read.remaining > 0 && self.state.phase == Phase::Connecting {
            return self.write_snapshot(f);
        }
        let progress = &self.state.progress;
        let (lag_bytes, lag) = (HumanBytes(progress.lag_bytes()), Age(progress.lag(self.now.1)));
        let (inflight, events) = (progress.inflight_events, HumanCount(progress.events));
        write!(f, "  confirmed {}  lag {lag_bytes} · {lag}  in flight {inflight}", progress.confirmed)?;
        write!(f, "  {events} events  {:.1}/s", self.rate)?;
        self.write_danger(f)
    }

    /// Writes `snapshot ████████░░░░░░░░░░░░ 37 %  2 of 5 tables  1,234,567 rows`.
    fn write_snapshot(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = &self.state.tables_read;
        write!(f, "  snapshot ")?;
        if let Some(percent) = read.percent() {
            for step in 0..BAR_STEPS {
                let is_done = percent.saturating_mul(BAR_STEPS) > step.saturating_mul(100);
                f.write_char(if is_done { '█' } else { '░' })?;
            }
            write!(f, " {percent} %")?;
        }
        let done = read.tables.saturating_sub(read.remaining);
        write!(f, "  {done} of {} tables  {} rows", read.tables, HumanCount(read.rows))
    }

    fn write_danger(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(report) = self.state.slot_report.filter(|report| report.danger > SlotDanger::None) else {
            return Ok(());
        };
        write!(f, "  slot {}: keeps {} of WAL", report.danger.name(), HumanBytes(report.retained_bytes))?;
        match report.safe_wal_bytes.map(u64::try_from) {
            Some(room) => write!(f, ", lost after {} more", HumanBytes(room.unwrap_or_default())),
            None => Ok(()),
        }
    }
}

const fn symbol(phase: &Phase) -> char {
    match phase {
        Phase::Connecting => '○',
        Phase::StandingBy(_) => '◌',
        Phase::Streaming => '●',
        Phase::Draining => '◐',
        Phase::Paused => '◫',
        Phase::Stopped => '■',
    }
}

#[cfg(test)]
mod tests {
    use super::super::metrics::SlotReport;
    use super::super::status::TablesRead;
    use super::super::status::{Holder, Limits, Progress};
    use super::*;
    use crate::wal::Lsn;

    /// Returns the line of a relay after `change`, ten seconds after its start.
    fn line(change: impl FnOnce(&Status, Instant)) -> String {
        let start = Instant::now();
        let status = Status::new(Limits::default(), start);
        change(&status, start);
        let now = (start + Duration::from_secs(10), SystemTime::UNIX_EPOCH + Duration::from_secs(10));
        Line { state: &status.snapshot(), route: "orders/public.outbox → kafka", rate: 45.24, now }
            .to_string()
    }

    #[test]
    fn every_phase_has_its_line() {
        let progress = Progress {
            confirmed: Lsn::new(0x1A2_B3C8),
            server: Lsn::new(0x1A2_B3C8 + 2048),
            oldest_commit: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(9600)),
            inflight_events: 12,
            events: 1234,
            ..Progress::default()
        };
        let streaming = line(|status, now| {
            status.enter(Phase::Streaming);
            status.tick(progress, now);
        });
        assert_eq!(
            streaming,
            "● streaming  orders/public.outbox → kafka  confirmed 0/1A2B3C8  lag 2.00 KiB · 0.4 s  in flight 12  \
             1,234 events  45.2/s"
        );
        let full = line(|status, now| {
            status.enter(Phase::Streaming);
            status.tick(progress, now);
            status.slot(
                SlotReport {
                    retained_bytes: 4096,
                    safe_wal_bytes: Some(1024),
                    wal_status: None,
                    danger: SlotDanger::Alarm,
                },
                None,
            );
        });
        assert!(
            full.ends_with("45.2/s  slot alarm: keeps 4.00 KiB of WAL, lost after 1.00 KiB more"),
            "{full}"
        );
        let standing_by = line(|status, _| {
            status.enter(Phase::StandingBy(Holder { pid: 42, application: "out\nboxd".into() }));
        });
        assert_eq!(
            standing_by,
            "◌ standing by  orders/public.outbox → kafka  slot held by pid 42 (out\\nboxd)"
        );
        let connecting = line(|status, now| status.down(Component::Kafka, "no broker\u{1b}[2J", now));
        assert_eq!(
            connecting,
            "○ connecting  orders/public.outbox → kafka  kafka down for 10.0 s: no broker\\u{1b}[2J"
        );
    }

    #[test]
    fn a_snapshot_shows_how_far_it_is() {
        let read = TablesRead {
            tables: 5,
            remaining: 3,
            rows: 1_234_567,
            pages: 1_000,
            pages_read: 371,
            ..TablesRead::default()
        };
        assert_eq!(
            line(|status, now| status.read_tables(read, now)),
            "○ connecting  orders/public.outbox → kafka  snapshot ████████░░░░░░░░░░░░ 37 %  2 of 5 tables  1,234,567 rows"
        );
        let uncounted = line(|status, now| status.read_tables(TablesRead { pages: 0, ..read }, now));
        assert!(uncounted.ends_with("  snapshot   2 of 5 tables  1,234,567 rows"), "{uncounted}");
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let start = Instant::now();
        let mut rate = Rate::default();
        let mut shown = |seconds, events| rate.next(events, start + Duration::from_secs(seconds));
        assert_eq!([shown(0, 0), shown(1, 10), shown(2, 20)], [0.0, 10.0, 10.0]);
        assert_eq!([shown(3, 20), shown(4, 20), shown(5, 20), shown(6, 20)], [20.0 / 3.0, 5.0, 4.0, 2.0]);
    }

    #[test]
    fn ages_are_short() {
        let age = |seconds| Age(Duration::from_secs_f64(seconds)).to_string();
        assert_eq!(
            [age(0.0), age(59.0), age(60.0), age(750.0), age(10_800.0)],
            ["0.0 s", "59.0 s", "1.0 min", "12.5 min", "3.0 h"]
        );
    }
}
