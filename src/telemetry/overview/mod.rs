//! Overview of the relay: contents of the status page, and of `/status` for the commands.
//!
//! ```text
//! Snapshot ─┐
//! Metrics  ─┼─▶ Overview ─┬─▶ / (HTML)
//! History  ─┘             └─▶ /status (JSON) ─▶ outboxd status, lag, top
//! ```
//!
//! It has names of tables and topics, numbers, and the words of errors. It never has a row's value.

pub(crate) mod fix_names;
mod lag;
mod problems;
mod runway;
mod state;
mod tally;

use std::time::{Instant, SystemTime};

use serde::{Deserialize, Serialize};

pub(crate) use lag::{Lag, Part};
pub(crate) use problems::Problem;
pub(crate) use runway::{Runway, SlotView};
pub(crate) use state::{Level, words as state_in_words};
pub(crate) use tally::{DeadLetters, NotSent, SnapshotView, TopicView, events_of_all};

use state::State;
use tally::Events;

use super::history::History;
use super::metrics::Metrics;
use super::status::Snapshot;

/// The relay at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Overview {
    /// The program's version.
    pub(crate) version: String,
    /// Source of the rows.
    pub(crate) source: Source,
    pub(crate) state: State,
    /// Problems with their fixes, the worst first.
    pub(crate) problems: Vec<Problem>,
    pub(crate) lag: Lag,
    pub(crate) slot: SlotView,
    pub(crate) events: Events,
    /// Rates by topic, the busiest first.
    pub(crate) topics: Vec<TopicView>,
    /// Running snapshot.
    pub(crate) snapshot: Option<SnapshotView>,
    /// Since the process started, without reasons that did not occur.
    pub(crate) dead_letters: Vec<DeadLetters>,
    /// Keys whose events become dead letters because an earlier event of the key did.
    #[serde(default)]
    pub(crate) held_keys: u64,
    /// As the dead letters.
    pub(crate) rows_not_sent: Vec<NotSent>,
}

/// Source of the rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    pub(crate) database: String,
    /// Tables as the configuration names them, separated by commas.
    pub(crate) tables: String,
    pub(crate) slot: String,
    pub(crate) publication: String,
    pub(crate) topic_prefix: String,
}

impl Overview {
    /// Puts together what is known now.
    pub(crate) fn new(
        state: &Snapshot,
        metrics: &Metrics,
        history: &History,
        now: Instant,
        clock: SystemTime,
    ) -> Self {
        let info = metrics.info();
        let slot = SlotView::new(state, history);
        let problems = problems::with_runway(problems::problems(state, now), slot.runway, state);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            source: Source {
                database: info.database.clone(),
                tables: info.tables.clone(),
                slot: info.slot.clone(),
                publication: info.publication.clone(),
                topic_prefix: info.topic_prefix.clone(),
            },
            state: State::new(state, &problems, now),
            lag: Lag::new(state, history, now, clock),
            slot,
            events: Events::new(state, metrics, history, clock),
            topics: tally::topics(metrics, history),
            snapshot: tally::snapshot(state),
            dead_letters: tally::dead_letters(metrics),
            held_keys: metrics.held_keys(),
            rows_not_sent: tally::not_sent(metrics),
            problems,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::ConfigInfo;
    use crate::telemetry::status::{Limits, Status};

    #[test]
    fn an_overview_comes_back_from_json() {
        let (metrics, now) = (Metrics::new(&ConfigInfo::default()), Instant::now());
        metrics.topic_tally().add("orders", 3);
        let state = Status::new(Limits::default(), now).snapshot();
        let mut history = History::default();
        history.sample(&state, metrics.topics(), now);
        let mut seen = Overview::new(&state, &metrics, &history, now, SystemTime::now());
        for runway in [
            Runway::NotAsked,
            Runway::Measuring,
            Runway::Disk,
            Runway::Idle,
            Runway::Hours { hours: 22.5 },
            Runway::Over,
        ] {
            seen.slot.runway = runway;
            let text = serde_json::to_string(&seen).unwrap();
            assert_eq!(serde_json::from_str::<Overview>(&text).unwrap(), seen, "{text}");
        }
    }
}
