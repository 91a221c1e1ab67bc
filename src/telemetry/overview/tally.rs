//! Counts of events, topics and snapshots.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::telemetry::age::Age;
use crate::telemetry::history::{History, TopicRate, tenths, thousandths};
use crate::telemetry::metrics::{DeathCause, Metrics};
use crate::telemetry::status::Snapshot;

/// Events of all topics, since the process started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Events {
    pub(crate) sent: u64,
    /// Over the last minute.
    pub(crate) per_second: f64,
    /// Seconds since the last one was read; `None` when there was none.
    pub(crate) last_seconds_ago: Option<f64>,
}

/// One topic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TopicView {
    pub(crate) topic: String,
    pub(crate) events: u64,
    /// Over the last minute.
    pub(crate) per_second: f64,
    /// Events a second in each 5 s of the last quarter of an hour, the oldest first.
    pub(crate) samples: Vec<f64>,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotView {
    pub(crate) tables: u64,
    pub(crate) remaining: u64,
    pub(crate) rows: u64,
    pub(crate) percent: Option<u64>,
}

/// Dead letters of one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeadLetters {
    pub(crate) reason: String,
    pub(crate) words: String,
    pub(crate) events: u64,
}

/// Rows of one table that are not sent for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotSent {
    pub(crate) table: String,
    pub(crate) reason: String,
    pub(crate) rows: u64,
}

impl Events {
    pub(super) fn new(state: &Snapshot, metrics: &Metrics, history: &History, clock: SystemTime) -> Self {
        let ago = state.progress.last_event.and_then(|at| clock.duration_since(at).ok());
        let counts = metrics.topics();
        let rates = counts.iter().map(|count| history.topic(&count.topic).per_second);
        Self {
            sent: counts.iter().map(|count| count.events).sum(),
            // Not `sum`: of no topic at all that is -0.0.
            per_second: tenths(rates.fold(0.0, |all, rate| all + rate)),
            last_seconds_ago: ago.map(|ago| tenths(ago.as_secs_f64())),
        }
    }

    /// Returns the time of the last one, for a person.
    pub(crate) fn last(&self) -> String {
        let ago = self.last_seconds_ago.and_then(|ago| Duration::try_from_secs_f64(ago).ok());
        match (ago, self.sent) {
            (Some(ago), _) => format!("last {} ago", Age(ago)),
            (None, 0) => "none since the start".to_owned(),
            (None, _) => "none since the snapshot".to_owned(),
        }
    }
}

pub(super) fn topics(metrics: &Metrics, history: &History) -> Vec<TopicView> {
    let view = |count: crate::telemetry::metrics::TopicCount| {
        let TopicRate { per_second, samples } = history.topic(&count.topic);
        let samples = samples.into_iter().map(thousandths).collect();
        TopicView { topic: count.topic, events: count.events, per_second, samples }
    };
    let mut topics: Vec<_> = metrics.topics().into_iter().map(view).collect();
    topics.sort_by(|a, b| {
        (b.per_second.total_cmp(&a.per_second)).then(b.events.cmp(&a.events)).then(a.topic.cmp(&b.topic))
    });
    topics.iter_mut().for_each(|topic| topic.per_second = tenths(topic.per_second));
    topics
}

/// Returns the events a second of all topics together, aligned at the newest sample.
pub(crate) fn events_of_all(topics: &[TopicView]) -> Vec<f64> {
    let length = topics.iter().map(|topic| topic.samples.len()).max().unwrap_or_default();
    let mut all = vec![0.0; length];
    for topic in topics {
        all.iter_mut().rev().zip(topic.samples.iter().rev()).for_each(|(sum, sample)| *sum += sample);
    }
    all
}

/// Returns the running snapshot, if there is one.
pub(super) fn snapshot(state: &Snapshot) -> Option<SnapshotView> {
    let read = state.tables_read;
    (read.remaining > 0).then(|| SnapshotView {
        tables: read.tables,
        remaining: read.remaining,
        rows: read.rows,
        percent: read.percent(),
    })
}

pub(super) fn dead_letters(metrics: &Metrics) -> Vec<DeadLetters> {
    let view = |cause: DeathCause| DeadLetters {
        reason: cause.name().to_owned(),
        words: words(cause).to_owned(),
        events: metrics.dead_letters(cause),
    };
    DeathCause::ALL.into_iter().map(view).filter(|letters| letters.events > 0).collect()
}

const fn words(cause: DeathCause) -> &'static str {
    match cause {
        DeathCause::Reading => "a column cannot be read",
        DeathCause::Routing => "no topic, no partition or no timestamp",
        DeathCause::Conversion => "a converter refuses it",
        DeathCause::TooLarge => "too large for Kafka",
        DeathCause::NoTopic => "there is no such topic",
        DeathCause::Invalid => "Kafka refuses it",
        DeathCause::Key => "behind another dead letter of its key",
    }
}

pub(super) fn not_sent(metrics: &Metrics) -> Vec<NotSent> {
    let rows = metrics.not_sent().into_iter().filter(|(_, _, rows)| *rows > 0);
    let mut rows: Vec<_> =
        rows.map(|(table, reason, rows)| NotSent { table, reason: reason.to_owned(), rows }).collect();
    rows.sort_by(|a, b| b.rows.cmp(&a.rows).then_with(|| (&a.table, &a.reason).cmp(&(&b.table, &b.reason))));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::ConfigInfo;

    #[test]
    fn what_did_not_occur_is_not_reported() {
        let metrics = Metrics::new(&ConfigInfo::default());
        assert!(dead_letters(&metrics).is_empty() && not_sent(&metrics).is_empty());
        metrics.dead_letter(DeathCause::TooLarge);
        drop(metrics.rows_not_sent("public.a", "delete"));
        metrics.rows_not_sent("public.b", "update").count();
        let letters = dead_letters(&metrics);
        assert_eq!((letters.len(), letters[0].reason.as_str(), letters[0].events), (1, "too_large", 1));
        let rows = NotSent { table: "public.b".to_owned(), reason: "update".to_owned(), rows: 1 };
        assert_eq!(not_sent(&metrics), [rows]);
    }

    #[test]
    fn the_last_event_is_known_in_the_next_session() {
        use std::time::{Duration, Instant};

        use crate::telemetry::status::{Progress, Status};
        let (metrics, status) = (Metrics::new(&ConfigInfo::default()), Status::streaming(Instant::now()));
        let at = SystemTime::UNIX_EPOCH;
        for last_event in [Some(at), None] {
            status.tick(Progress { last_event, ..Progress::default() }, Instant::now());
        }
        let clock = at + Duration::from_secs(120);
        let events = Events::new(&status.snapshot(), &metrics, &History::default(), clock);
        assert_eq!((events.last_seconds_ago, events.last()), (Some(120.0), "last 2.0 min ago".to_owned()));
        let none = Events { last_seconds_ago: None, ..events };
        assert_eq!(none.last(), "none since the start");
        assert_eq!(Events { sent: 3, ..none }.last(), "none since the snapshot");
    }

    #[test]
    fn all_topics_together_end_now() {
        let topic = |samples: &[f64]| TopicView {
            topic: String::new(),
            events: 0,
            per_second: 0.0,
            samples: samples.to_vec(),
        };
        assert_eq!(events_of_all(&[topic(&[1.0, 2.0, 3.0]), topic(&[10.0])]), [1.0, 2.0, 13.0]);
        assert_eq!(events_of_all(&[]), Vec::<f64>::new());
    }

    #[test]
    fn rates_of_many_slow_topics_are_added_before_they_are_rounded() {
        use std::time::{Duration, Instant};

        use crate::telemetry::status::Status;
        let (metrics, mut history, start) =
            (Metrics::new(&ConfigInfo::default()), History::default(), Instant::now());
        let status = Status::streaming(start);
        let names: Vec<_> = (0..300).map(|number| format!("t{number}")).collect();
        let mut tally = metrics.topic_tally();
        names.iter().for_each(|name| tally.add(name, 1));
        // 1.1 events of each topic in a minute: 5.5 a second.
        for minutes in [0, 10] {
            history.sample(&status.snapshot(), metrics.topics(), start + Duration::from_secs(60) * minutes);
            names.iter().for_each(|name| tally.add(name, 11));
        }
        let all = Events::new(&status.snapshot(), &metrics, &history, SystemTime::now());
        assert!((all.per_second - 5.5).abs() < f64::EPSILON, "{}", all.per_second);
        let sum: f64 = events_of_all(&topics(&metrics, &history)).iter().sum();
        assert!((sum - 5.5).abs() < 0.2, "{sum}");
    }

    #[test]
    fn the_busiest_topic_is_first() {
        let metrics = Metrics::new(&ConfigInfo::default());
        let mut tally = metrics.topic_tally();
        [("a", 1), ("b", 5), ("c", 1)].into_iter().for_each(|(topic, events)| tally.add(topic, events));
        let topics = topics(&metrics, &History::default());
        let names: Vec<_> = topics.iter().map(|topic| topic.topic.as_str()).collect();
        assert_eq!(names, ["b", "a", "c"]);
    }
}
