//! Tables of the status page.

use indicatif::HumanCount;
use maud::{Markup, html};

use super::chart::{chart, chart_with_scale};
use crate::telemetry::{DeadLetters, NotSent, Overview, TopicView, dead_letters_command, events_of_all};

/// Most topics, and most tables with rows that are not sent, that have a line of their own. `/status` has all
/// of them.
const TOPIC_LINES_MAX: usize = 20;
const NOT_SENT_LINES_MAX: usize = 20;

/// Renders the rates by topic, and all of them together.
pub(super) fn topics(seen: &Overview) -> Markup {
    let all = events_of_all(&seen.topics);
    let most = all.iter().copied().fold(0.0, f64::max);
    html! {
        section #topics {
            h2 { "Events a second" }
            (chart_with_scale(&all, "large"))
            p .soft.axis { span { "15 min ago" } span { "at most " (format!("{most:.1}")) "/s" } span { "now" } }
            @if !seen.topics.is_empty() { (by_topic(&seen.topics)) }
        }
    }
}

fn by_topic(topics: &[TopicView]) -> Markup {
    html! {
        table .topics {
            thead { tr { th .name { "topic" } th .number.wide { "sent" } th .number { "now" } th { "15 min" } } }
            tbody {
                @for topic in topics.iter().take(TOPIC_LINES_MAX) {
                    tr {
                        td .name { (name(&topic.topic)) }
                        td .number.wide { (HumanCount(topic.events)) }
                        td .number { (format!("{:.1}/s", topic.per_second)) }
                        td { (chart(&topic.samples, "small")) }
                    }
                }
            }
        }
        (more(topics.len(), TOPIC_LINES_MAX, "topics"))
    }
}

pub(super) fn dead_letters(letters: &[DeadLetters]) -> Markup {
    html! {
        @if !letters.is_empty() {
            section #dead-letters {
                h2 { "Dead letters since the start" }
                table {
                    @for DeadLetters { reason, words, events } in letters {
                        tr { td { (words) " " span .soft { "(" (reason) ")" } } td .number { (HumanCount(*events)) } }
                    }
                }
                p .soft { "Each waits for a decision: " code { (dead_letters_command()) } }
            }
        }
    }
}

pub(super) fn not_sent(rows: &[NotSent]) -> Markup {
    html! {
        @if !rows.is_empty() {
            section #rows-not-sent {
                h2 { "Rows not sent since the start" }
                table {
                    @for NotSent { table, reason, rows } in rows.iter().take(NOT_SENT_LINES_MAX) {
                        tr { td .name { (name(table)) } td { (reason) } td .number { (HumanCount(*rows)) } }
                    }
                }
                (more(rows.len(), NOT_SENT_LINES_MAX, "lines"))
            }
        }
    }
}

/// Writes a name that may be broken behind its separators, and inside a word only if the word alone has no room.
fn name(name: &str) -> Markup {
    html! { @for part in name.split_inclusive(['.', '_', '-', '/']) { (part) wbr; } }
}

fn more(lines: usize, most: usize, of: &str) -> Markup {
    let left = lines.saturating_sub(most);
    html! { @if left > 0 { p .soft { "and " (left) " more " (of) ", in /status" } } }
}
