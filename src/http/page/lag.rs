//! The lag on the status page.

use indicatif::{HumanBytes, HumanCount};
use maud::{Markup, html};

use super::age;
use crate::telemetry::{Lag, Part};

/// Renders where the lag is, by component.
pub(super) fn lag(lag: &Lag) -> Markup {
    let on_the_way =
        format!("{} records, {}, not acknowledged", HumanCount(lag.records), HumanBytes(lag.record_bytes));
    html! {
        section #lag {
            h2 { "Where the lag is" }
            table {
                thead { tr { th { "at" } th .number { "oldest" } th .number { "WAL" } th .wide { "" } } }
                tbody {
                    (postgres(lag))
                    (row("outboxd", lag.outboxd, "read; not on its way, or not confirmed yet"))
                    (row("Kafka", lag.kafka, &on_the_way))
                }
            }
        }
    }
}

fn postgres(lag: &Lag) -> Markup {
    let Some(unseen) = lag.unseen_seconds else { return row("PostgreSQL", lag.postgres, "not read yet") };
    html! {
        tr {
            td { "PostgreSQL" }
            td .number { "unknown" }
            td .number { "unknown" }
            td .wide.soft { "not seen for " (age(unseen)) }
        }
    }
}

fn row(place: &str, part: Part, meaning: &str) -> Markup {
    html! {
        tr {
            td { (place) }
            td .number { (oldest(part)) }
            td .number { (HumanBytes(part.bytes)) }
            td .wide.soft { (meaning) }
        }
    }
}

fn oldest(part: Part) -> String {
    match part.seconds {
        None => "unknown".to_owned(),
        Some(seconds) if part.at_least => format!("over {}", age(seconds)),
        Some(seconds) => age(seconds),
    }
}
