//! Main figures of the status page.

use indicatif::{HumanBytes, HumanCount};
use maud::{Markup, html};

use super::age;
use crate::telemetry::{Overview, SlotView};

/// Renders the main figures.
pub(super) fn tiles(seen: &Overview) -> Markup {
    let (lag, slot, events) = (&seen.lag, &seen.slot, &seen.events);
    let (oldest, more) = match lag.unseen_seconds {
        None => (age(lag.seconds), format!("the oldest event; WAL: {}", lag.whole())),
        Some(unseen) => (
            format!("over {}", age(lag.seconds)),
            format!("PostgreSQL was not seen for {}; WAL: {}", age(unseen), lag.whole()),
        ),
    };
    let (lag, runway) = if seen.state.is_standby() {
        let elsewhere = || ("elsewhere".to_owned(), "the instance that has the slot reports it".to_owned());
        (elsewhere(), elsewhere())
    } else {
        ((oldest, more), slot.runway.words())
    };
    html! {
        dl .tiles {
            (tile("Lag", &lag.0, &lag.1))
            @if !seen.state.is_standby() && slot.runway.is_urgent() {
                div .wrong { dt { "Slot's runway" } dd { strong { b { (runway.0) } } p .soft { (runway.1) } } }
            } @else {
                (tile("Slot's runway", &runway.0, &runway.1))
            }
            (tile("Events", &format!("{:.1}/s", events.per_second), &events.last()))
            (tile("Sent since the start", &HumanCount(events.sent).to_string(), &kept(slot)))
        }
    }
}

fn tile(name: &str, number: &str, more: &str) -> Markup {
    html! {
        div {
            dt { (name) }
            dd { strong { (number) } p .soft { (more) } }
        }
    }
}

/// Returns the WAL that the slot retains.
fn kept(slot: &SlotView) -> String {
    match (slot.retained_bytes, slot.wal_bytes_per_second) {
        (Some(kept), Some(rate)) => {
            format!("the slot keeps {} of WAL; {}/s are written", HumanBytes(kept), HumanBytes(rate))
        }
        (Some(kept), None) => format!("the slot keeps {} of WAL", HumanBytes(kept)),
        (None, _) => "the slot was not asked yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use super::*;
    use crate::telemetry::{ConfigInfo, History, Limits, Metrics, Progress, SlotDanger, SlotReport, Status};
    use crate::wal::Lsn;

    #[test]
    fn the_runway_is_reported_in_hours() {
        let begin = Instant::now();
        let end = begin + Duration::from_secs(100);
        let (metrics, status) = (Metrics::new(&ConfigInfo::default()), Status::new(Limits::default(), begin));
        let mut history = History::default();
        for (server, at) in [(1, begin), (100_001, end)] {
            status.tick(Progress { server: Lsn::new(server), ..Progress::default() }, at);
            history.sample(&status.snapshot(), Vec::new(), at);
        }
        let (safe_wal_bytes, danger) = (Some(36_000_000), SlotDanger::None);
        status.slot(SlotReport { retained_bytes: 1, safe_wal_bytes, wal_status: None, danger }, None);
        let seen = Overview::new(&status.snapshot(), &metrics, &history, end, SystemTime::now());
        let html = tiles(&seen).into_string();
        assert!(html.contains("<dt>Slot's runway</dt><dd><strong>10.0 h</strong>"), "{html}");
    }
}
