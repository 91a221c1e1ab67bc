use indicatif::{HumanBytes, HumanCount};
use maud::{Markup, html};

use super::age;
use crate::telemetry::{Overview, SlotView};

/// The numbers that matter.
pub(super) fn tiles(seen: &Overview) -> Markup {
    let (lag, slot, events) = (&seen.lag, &seen.slot, &seen.events);
    let behind = lag.bytes.map_or_else(|| "not known yet".to_owned(), |bytes| HumanBytes(bytes).to_string());
    let last =
        events.last_seconds_ago.map_or_else(|| "none yet".to_owned(), |ago| format!("{} ago", age(ago)));
    let runway = slot.runway.words();
    html! {
        dl .tiles {
            (tile("Lag", &behind, &format!("oldest {}", age(lag.seconds))))
            (tile("Slot's runway", &runway.0, &runway.1))
            (tile("Events", &format!("{:.1}/s", events.per_second), &format!("last {last}")))
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

/// What the slot costs the server.
fn kept(slot: &SlotView) -> String {
    match (slot.retained_bytes, slot.wal_bytes_per_second) {
        (Some(kept), Some(rate)) => {
            format!("the slot keeps {} of WAL; {}/s are written", HumanBytes(kept), HumanBytes(rate))
        }
        (Some(kept), None) => format!("the slot keeps {} of WAL", HumanBytes(kept)),
        (None, _) => "the slot was not asked yet".to_owned(),
    }
}
