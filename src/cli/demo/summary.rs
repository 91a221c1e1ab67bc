//! Comparison of what was committed with what arrived.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::show::milliseconds;

/// Most arrivals that are remembered, for the quantiles and to recognise repetitions.
const ARRIVALS_MAX: usize = 100_000;

/// The book that writer and consumer share. Clones are handles on the same book.
#[derive(Debug, Clone, Default)]
pub(super) struct Book(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    entries: Mutex<Entries>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Entries {
    /// Header `id` of events that are committed, or about to be, and have not arrived.
    awaited: HashMap<String, Instant>,
    rolled_back_ids: HashSet<String>,
    recent: VecDeque<(String, Duration)>,
    recent_ids: HashSet<String>,
    counts: Counts,
}

/// Number of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) transactions_committed: u64,
    pub(super) transactions_rolled_back: u64,
    pub(super) events_committed: u64,
    pub(super) events_received: u64,
    /// Received a second time.
    pub(super) repeated: u64,
    /// Number of events written by other programs, for instance with psql.
    pub(super) foreign: u64,
    /// Received although their transaction was rolled back.
    pub(super) impossible: u64,
}

/// Kind of an arriving record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Awaited, and so long after its COMMIT was sent.
    Awaited(Duration),
    Repeated,
    Foreign,
    /// Of a transaction that was rolled back.
    Impossible,
}

impl Book {
    /// Records ids before COMMIT is sent, as the record may be faster than the server's answer.
    pub(super) fn commits(&self, ids: &[String], now: Instant) {
        self.lock().awaited.extend(ids.iter().map(|id| (id.clone(), now)));
    }

    pub(super) fn committed(&self, events: usize) {
        let counts = &mut self.lock().counts;
        counts.transactions_committed = counts.transactions_committed.saturating_add(1);
        counts.events_committed =
            counts.events_committed.saturating_add(u64::try_from(events).unwrap_or(u64::MAX));
    }

    /// Forgets ids whose COMMIT failed: it is unknown whether their events will be sent.
    pub(super) fn uncertain(&self, ids: &[String]) {
        let mut entries = self.lock();
        for id in ids {
            entries.awaited.remove(id);
        }
    }

    pub(super) fn rolled_back(&self, ids: Vec<String>) {
        let mut entries = self.lock();
        entries.rolled_back_ids.extend(ids);
        entries.counts.transactions_rolled_back = entries.counts.transactions_rolled_back.saturating_add(1);
    }

    pub(super) fn arrives(&self, id: &str, now: Instant) -> Arrival {
        let arrival = self.lock().arrives(id, now);
        self.0.arrived.notify_one();
        arrival
    }

    /// Waits until everything that was committed has arrived, or the time is over.
    pub(super) async fn completed(&self, within: Duration) {
        let complete = async {
            while !self.lock().awaited.is_empty() {
                self.0.arrived.notified().await;
            }
        };
        // What is missing is in the summary.
        drop(tokio::time::timeout(within, complete).await);
    }

    pub(super) fn summary(&self, acknowledged: Option<[Bound; 2]>) -> Summary {
        let entries = self.lock();
        let mut latencies: Vec<_> = entries.recent.iter().map(|(_, latency)| *latency).collect();
        latencies.sort_unstable();
        let quantiles = quantile(&latencies, 50).zip(quantile(&latencies, 99));
        Summary { counts: entries.counts, missing: entries.awaited.len(), received: quantiles, acknowledged }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn arrives(&mut self, id: &str, now: Instant) -> Arrival {
        let counts = &mut self.counts;
        let (count, arrival) = if let Some(committing) = self.awaited.remove(id) {
            let latency = now.saturating_duration_since(committing);
            self.recent_ids.insert(id.to_owned());
            self.recent.push_back((id.to_owned(), latency));
            (&mut counts.events_received, Arrival::Awaited(latency))
        } else if self.recent_ids.contains(id) {
            (&mut counts.repeated, Arrival::Repeated)
        } else if self.rolled_back_ids.contains(id) {
            (&mut counts.impossible, Arrival::Impossible)
        } else {
            (&mut counts.foreign, Arrival::Foreign)
        };
        *count = count.saturating_add(1);
        if self.recent.len() > ARRIVALS_MAX
            && let Some((oldest, _)) = self.recent.pop_front()
        {
            self.recent_ids.remove(&oldest);
        }
        arrival
    }
}

/// Returns the nearest rank of sorted values.
fn quantile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = sorted.len().saturating_mul(percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// A bucket of the relay's histogram that a quantile lies in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    /// Seconds.
    AtMost(f64),
    /// Beyond the last bucket.
    Above,
}

/// Returns upper bounds of the median and the 99th percentile of `outboxd_commit_to_ack_seconds`, from a page
/// of metrics. The buckets are coarse, so these are upper bounds.
pub(super) fn commit_to_ack(page: &str) -> Option<[Bound; 2]> {
    const BUCKET: &str = "outboxd_commit_to_ack_seconds_bucket{le=\"";
    let buckets: Vec<(&str, u64)> = page
        .lines()
        .filter_map(|line| line.strip_prefix(BUCKET)?.split_once("\"} "))
        .filter_map(|(bound, count)| Some((bound, count.parse().ok()?)))
        .collect();
    let total = buckets.last().map(|(_, count)| *count).filter(|total| *total > 0)?;
    let bound = |percent: u64| {
        let rank = total.saturating_mul(percent).div_ceil(100);
        let bucket = buckets.iter().find(|(_, count)| *count >= rank);
        let seconds =
            bucket.and_then(|(bound, _)| bound.parse().ok()).filter(|seconds: &f64| seconds.is_finite());
        seconds.map_or(Bound::Above, Bound::AtMost)
    };
    Some([bound(50), bound(99)])
}

/// Text at the end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Summary {
    counts: Counts,
    missing: usize,
    received: Option<(Duration, Duration)>,
    acknowledged: Option<[Bound; 2]>,
}

impl Summary {
    /// Returns whether everything that was committed arrived, and no other event of the demo's own.
    pub(super) const fn is_sound(&self) -> bool {
        self.missing == 0 && self.counts.impossible == 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { transactions_committed, transactions_rolled_back, events_committed, .. } = self.counts;
        let Counts { events_received, repeated, foreign, impossible, .. } = self.counts;
        let missing = if self.missing == 0 { "none".to_owned() } else { self.missing.to_string() };
        write!(
            f,
            "  transactions  {transactions_committed} committed, {transactions_rolled_back} rolled back"
        )?;
        match (transactions_rolled_back, impossible) {
            (0, 0) => writeln!(f)?,
            (_, 0) => writeln!(f, ", of which nothing was sent")?,
            _ => writeln!(f, ", of which {impossible} EVENTS WERE SENT")?,
        }
        write!(
            f,
            "  events        {events_committed} committed, {events_received} received, {missing} missing"
        )?;
        if repeated > 0 {
            write!(f, ", {repeated} repeated")?;
        }
        if foreign > 0 {
            write!(f, "; {foreign} more that were not the demo's own")?;
        }
        if let Some([p50, p99]) = self.acknowledged {
            write!(f, "\n  commit → ack       p50 {p50}, p99 {p99} (outboxd_commit_to_ack_seconds)")?;
        }
        if let Some((p50, p99)) = self.received {
            let (p50, p99) = (milliseconds(p50), milliseconds(p99));
            write!(f, "\n  commit → consumer  p50 {p50}, p99 {p99}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(seconds) => write!(f, "≤ {} ms", (seconds * 10_000.0).round() / 10.0),
            Self::Above => f.write_str("above the last bucket"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn every_arrival_is_known_for_what_it_is() {
        let (book, start) = (Book::default(), Instant::now());
        book.commits(&ids(&["a", "b", "c"]), start);
        book.committed(3);
        book.rolled_back(ids(&["r"]));
        book.commits(&ids(&["u"]), start);
        book.uncertain(&ids(&["u"]));
        let later = start + Duration::from_millis(7);
        let cases = [
            ("b", Arrival::Awaited(Duration::from_millis(7))),
            ("b", Arrival::Repeated),
            ("r", Arrival::Impossible),
            ("psql", Arrival::Foreign),
            ("u", Arrival::Foreign),
        ];
        for (id, expected) in cases {
            assert_eq!(book.arrives(id, later), expected, "{id}");
        }
        let summary = book.summary(None);
        assert!(!summary.is_sound());
        assert_eq!(
            summary.to_string(),
            "  transactions  1 committed, 1 rolled back, of which 1 EVENTS WERE SENT\n  \
             events        3 committed, 1 received, 2 missing, 1 repeated; 2 more that were not the demo's own\n  \
             commit → consumer  p50 7.0 ms, p99 7.0 ms"
        );
    }

    #[test]
    fn nothing_missing_is_sound() {
        let (book, now) = (Book::default(), Instant::now());
        book.commits(&ids(&["a"]), now);
        book.committed(1);
        assert!(!book.summary(None).is_sound());
        book.arrives("a", now);
        assert!(book.summary(None).is_sound());
        assert!(book.summary(None).to_string().contains("1 committed, 1 received, none missing"));
    }

    #[test]
    fn memory_is_bounded() {
        let (book, now) = (Book::default(), Instant::now());
        for n in 0..ARRIVALS_MAX + 10 {
            let id = ids(&[&n.to_string()]);
            book.commits(&id, now);
            book.arrives(&n.to_string(), now);
        }
        let entries = book.lock();
        assert_eq!((entries.recent.len(), entries.recent_ids.len()), (ARRIVALS_MAX, ARRIVALS_MAX));
    }

    #[test]
    fn quantiles_are_the_nearest_rank() {
        let sorted: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(quantile(&sorted, 50), Some(Duration::from_millis(100)));
        assert_eq!(quantile(&sorted, 99), Some(Duration::from_millis(198)));
        assert_eq!(quantile(&[], 50), None);
    }

    #[test]
    fn the_relays_histogram_gives_upper_bounds() {
        let page = |counts: [u64; 3]| {
            let line =
                |bound, count| format!("outboxd_commit_to_ack_seconds_bucket{{le=\"{bound}\"}} {count}\n");
            let [low, high, all] = counts;
            line("0.0025", low) + &line("0.005", high) + &line("+Inf", all)
        };
        let (low, high) = (Bound::AtMost(0.0025), Bound::AtMost(0.005));
        let cases = [
            ([90, 100, 100], Some([low, high])),
            ([50, 98, 100], Some([low, Bound::Above])),
            ([0, 100, 100], Some([high, high])),
            ([0, 0, 0], None),
        ];
        for (counts, expected) in cases {
            assert_eq!(commit_to_ack(&page(counts)), expected, "{counts:?}");
        }
        assert_eq!(commit_to_ack("# EOF"), None);
        assert_eq!(low.to_string(), "≤ 2.5 ms");
    }
}
