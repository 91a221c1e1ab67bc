//! Samples of the last quarter of an hour.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::metrics::TopicCount;
use super::status::Snapshot;
use crate::wal::Lsn;

/// Interval between two samples.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
pub(crate) const SAMPLES_MAX: usize = 180;

/// Number of samples of a minute.
const MINUTE_SAMPLES: usize = 13;

/// A rate over less time than this is chance.
const RATE_TIME_MIN: Duration = Duration::from_secs(10);

/// The last quarter of an hour. The topics are those of the metrics, which has a limit for them.
#[derive(Debug, Default)]
pub(crate) struct History {
    samples: VecDeque<Sample>,
    topics: BTreeMap<String, VecDeque<u64>>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    /// The end of the server's WAL; zero before it is known.
    server: Lsn,
}

/// Number of a topic's events at a time.
#[derive(Debug, Clone, Copy)]
struct Count {
    at: Instant,
    events: u64,
}

/// Rate of a topic.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct TopicRate {
    /// Events a second over the last minute.
    pub(super) per_second: f64,
    /// Events a second between each two samples, the oldest first.
    pub(super) samples: Vec<f64>,
}

/// WAL that the server wrote.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WalRate {
    bytes: u64,
    /// Time in which it was observed.
    over: Duration,
}

/// The age of a place in the WAL.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum WalAge {
    Known(Duration),
    /// More than this: the history does not reach so far back.
    AtLeast(Duration),
}

impl History {
    /// Takes a sample.
    pub(crate) fn sample(&mut self, state: &Snapshot, topics: Vec<TopicCount>, now: Instant) {
        let before = self.samples.len();
        for TopicCount { topic, events } in topics {
            // What was not there had counted nothing.
            let counts = self.topics.entry(topic).or_insert_with(|| VecDeque::from(vec![0; before]));
            counts.push_back(events);
        }
        self.samples.push_back(Sample { at: now, server: state.progress.server });
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
            for counts in self.topics.values_mut() {
                counts.pop_front();
            }
        }
    }

    /// Returns the rate of a topic; zero for an unknown one.
    pub(super) fn topic(&self, topic: &str) -> TopicRate {
        let Some(counts) = self.topics.get(topic) else { return TopicRate::default() };
        let counted = self.samples.iter().zip(counts);
        let points: Vec<_> =
            counted.map(|(sample, events)| Count { at: sample.at, events: *events }).collect();
        let steps = points.iter().zip(points.iter().skip(1));
        let samples = steps.map(|(from, to)| rate(*from, *to)).collect();
        let (first, last) = (points.get(points.len().saturating_sub(MINUTE_SAMPLES)), points.last());
        let per_second = first.zip(last).map_or(0.0, |(first, last)| rate(*first, *last));
        TopicRate { per_second, samples }
    }

    /// Returns the rate of WAL; `None` as long as too little was observed.
    pub(super) fn wal_rate(&self) -> Option<WalRate> {
        let known = || self.samples.iter().filter(|sample| sample.server != Lsn::ZERO);
        let (first, last) = (known().next()?, known().next_back()?);
        let over = last.at.saturating_duration_since(first.at);
        let bytes = last.server.bytes_since(first.server);
        (over >= RATE_TIME_MIN).then_some(WalRate { bytes, over })
    }

    /// Returns the time since the server's WAL ended at this place. `server` is where it ends now.
    pub(super) fn age(&self, place: Lsn, server: Lsn, now: Instant) -> Option<WalAge> {
        if place >= server {
            return Some(WalAge::Known(Duration::ZERO));
        }
        let known = self.samples.iter().filter(|sample| sample.server != Lsn::ZERO);
        let (mut after_at, mut after) = (now, server);
        for sample in known.rev() {
            if sample.server <= place {
                let span = after_at.saturating_duration_since(sample.at);
                let done =
                    float(place.bytes_since(sample.server)) / float(after.bytes_since(sample.server).max(1));
                return Some(WalAge::Known(
                    now.saturating_duration_since(sample.at + span.mul_f64(done.min(1.0))),
                ));
            }
            (after_at, after) = (sample.at, sample.server);
        }
        (after_at < now).then(|| WalAge::AtLeast(now.saturating_duration_since(after_at)))
    }
}

impl WalRate {
    /// Returns the rate in whole bytes a second.
    pub(super) fn whole(self) -> u64 {
        self.bytes.checked_div(self.over.as_secs()).unwrap_or_default()
    }
}

fn rate(from: Count, to: Count) -> f64 {
    let seconds = to.at.saturating_duration_since(from.at).as_secs_f64();
    if seconds > 0.0 { float(to.events.saturating_sub(from.events)) / seconds } else { 0.0 }
}

/// Rounds to three decimals: the samples of many slow topics are added up.
pub(super) fn thousandths(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Rounds to one decimal: more is noise. Rates are rounded once, after they are added up.
pub(super) fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

/// Converts a count, exactly up to 2^53, which is enough for display.
#[allow(clippy::cast_precision_loss, reason = "it is shown with two digits or three")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::super::status::{Limits, Progress, Status};
    use super::*;

    fn state(server: u64) -> Snapshot {
        let status = Status::new(Limits::default(), Instant::now());
        let progress = Progress { server: Lsn::new(server), ..Progress::default() };
        status.tick(progress, Instant::now());
        status.snapshot()
    }

    fn count(topic: &str, events: u64) -> TopicCount {
        TopicCount { topic: topic.to_owned(), events }
    }

    /// Makes a history with a sample every 5 s: 100 bytes a second, 2 events a second.
    fn steady(samples: u64) -> (History, Instant) {
        let start = Instant::now();
        let mut history = History::default();
        let mut now = start;
        for n in 0..samples {
            now = start + SAMPLE_INTERVAL * u32::try_from(n).unwrap();
            history.sample(&state(1000 + 500 * n), vec![count("orders", 10 * n)], now);
        }
        (history, now)
    }

    #[test]
    fn rates_are_those_of_what_was_seen() {
        let (history, _) = steady(13);
        assert_eq!(history.wal_rate().unwrap(), WalRate { bytes: 6000, over: Duration::from_secs(60) });
        let topic = history.topic("orders");
        assert_eq!((topic.per_second, topic.samples), (2.0, vec![2.0; 12]));
        assert_eq!(history.topic("payments"), TopicRate::default());
        assert_eq!(steady(1).0.wal_rate(), None, "one sample is no rate");
    }

    #[test]
    fn it_is_a_quarter_of_an_hour_and_no_more() {
        let (mut history, now) = steady(2 * u64::try_from(SAMPLES_MAX).unwrap());
        assert_eq!(history.samples.len(), SAMPLES_MAX);
        assert_eq!(history.topic("orders").samples.len(), SAMPLES_MAX - 1);
        // A topic that comes late has had nothing before.
        history.sample(&state(1), vec![count("orders", 1), count("late", 50)], now + SAMPLE_INTERVAL);
        let late = history.topic("late").samples;
        assert_eq!((late.len(), late.last()), (SAMPLES_MAX - 1, Some(&10.0)));
    }

    #[test]
    fn a_place_in_the_wal_has_the_age_of_the_moment_when_it_was_the_end() {
        let (history, now) = steady(13);
        let end = Lsn::new(7000);
        let cases = [
            (7000, Some(WalAge::Known(Duration::ZERO))),
            (6000, Some(WalAge::Known(Duration::from_secs(10)))),
            (6250, Some(WalAge::Known(Duration::from_millis(7500)))),
            (10, Some(WalAge::AtLeast(Duration::from_secs(60)))),
        ];
        for (place, expected) in cases {
            assert_eq!(history.age(Lsn::new(place), end, now), expected, "{place}");
        }
        assert_eq!(History::default().age(Lsn::new(10), end, now), None);
    }

    #[test]
    fn wal_whose_end_is_not_known_has_no_rate() {
        let mut history = History::default();
        let now = Instant::now();
        (0..5).for_each(|n| history.sample(&state(0), Vec::new(), now + SAMPLE_INTERVAL * n));
        assert_eq!(history.wal_rate(), None);
    }
}
