//! The status page, for a person: HTML without scripts and without anything from elsewhere.
//!
//! The templates escape whatever they are given; the page has no other way to write text.

mod chart;
mod lag;
mod tables;
mod tiles;

use std::time::Duration;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::telemetry::{Age, Overview, Problem, SnapshotView};

/// Interval in which a browser reloads the page.
const REFRESH_SECONDS: u8 = 5;

/// Policy that allows nothing but the styles in the page itself.
pub(super) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Icon of the page: a row that leaves the box.
pub(super) const ICON: &str = include_str!("favicon.svg");

const STYLE: &str = include_str!("style.css");

/// Returns the page that shows `seen`.
pub(super) fn page(seen: &Overview) -> String {
    let title = format!("{} {} · {}", seen.state.level.sign(), seen.state.words, seen.source.slot);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="refresh" content=(REFRESH_SECONDS);
                link rel="icon" type="image/svg+xml" href="favicon.svg";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (header(seen))
                main { (content(seen)) }
                (footer(seen))
            }
        }
    };
    page.into_string()
}

fn header(seen: &Overview) -> Markup {
    let source = &seen.source;
    html! {
        header {
            h1 { "outboxd" }
            p .soft { (source.database) " / " (or(&source.tables, "every table")) " · slot " (source.slot) }
        }
    }
}

fn content(seen: &Overview) -> Markup {
    html! {
        section .state.(seen.state.level.name()) role="status" {
            b aria-hidden="true" { (seen.state.level.sign()) } " " (seen.state.words)
            @for more in in_the_state(seen) { span .soft { " · " (more) } }
        }
        (problems(&seen.problems))
        (snapshot(seen.snapshot.as_ref()))
        (tiles::tiles(seen))
        (lag::lag(&seen.lag))
        (tables::topics(seen))
        (tables::dead_letters(&seen.dead_letters))
        (tables::not_sent(&seen.rows_not_sent))
        (positions(seen))
    }
}

/// Returns what waits for the operator although events flow.
fn in_the_state(seen: &Overview) -> Vec<String> {
    let counted = |count: u64, what: &str| {
        let plural = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{} {what}{plural}", indicatif::HumanCount(count)))
    };
    let letters = seen.dead_letters.iter().map(|letters| letters.events).fold(0, u64::saturating_add);
    [counted(letters, "dead letter"), counted(seen.held_keys, "held key")].into_iter().flatten().collect()
}

fn problems(problems: &[Problem]) -> Markup {
    html! {
        @if !problems.is_empty() {
            section #problems {
                h2 { "What is wrong" }
                @for problem in problems { (self::problem(problem)) }
            }
        }
    }
}

fn problem(problem: &Problem) -> Markup {
    let Problem { level, what, fix } = problem;
    html! {
        div .problem.(level.name()) {
            p { b { (level.sign()) } " " (what) }
            @if let Some(fix) = fix { p .fix { "To fix: " (fix) } }
        }
    }
}

fn snapshot(snapshot: Option<&SnapshotView>) -> Markup {
    let Some(read) = snapshot else { return html! {} };
    let done = read.tables.saturating_sub(read.remaining);
    html! {
        section #snapshot {
            h2 { "Snapshot" }
            @if let Some(percent) = read.percent {
                progress max="100" value=(percent) { (percent) " %" }
            }
            p {
                @if let Some(percent) = read.percent { (percent) " % · " }
                (done) " of " (read.tables) " tables · " (indicatif::HumanCount(read.rows)) " rows sent"
            }
        }
    }
}

fn positions(seen: &Overview) -> Markup {
    let slot = &seen.slot;
    html! {
        section #positions {
            h2 { "Positions in the WAL" }
            table {
                tr { th { "PostgreSQL has written" } td .number { code { (slot.server) } } }
                tr { th { "outboxd has read" } td .number { code { (slot.received) } } }
                tr { th { "confirmed: in Kafka" } td .number { code { (slot.confirmed) } } }
            }
        }
    }
}

fn footer(seen: &Overview) -> Markup {
    html! {
        footer {
            "outboxd " (seen.version) " · reloaded every " (REFRESH_SECONDS) " s · "
            a href="status" { "JSON" } " · " a href="readyz" { "readyz" } " · " a href="metrics" { "metrics" }
        }
    }
}

fn or<'t>(text: &'t str, instead: &'t str) -> &'t str {
    if text.is_empty() { instead } else { text }
}

/// Formats a duration as `12.5 min`; an invalid one is 0.
fn age(seconds: f64) -> String {
    Age(Duration::try_from_secs_f64(seconds).unwrap_or_default()).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime};

    use super::*;
    use crate::telemetry::{
        Component, ConfigInfo, DeathCause, History, Limits, Metrics, Phase, SlotDanger, SlotReport, Status,
        TablesRead,
    };

    /// Returns a page with this text wherever text can come from elsewhere.
    fn of(text: &str) -> String {
        let (name, now) = (text.to_owned(), Instant::now());
        let info =
            ConfigInfo { database: name.clone(), tables: name.clone(), slot: name, ..ConfigInfo::default() };
        let (metrics, status) = (Metrics::new(&info), Status::new(Limits::default(), now));
        metrics.topic_tally().add(text, 1);
        metrics.dead_letter(DeathCause::Key);
        metrics.dead_letter(DeathCause::Routing);
        metrics.keys_held(1);
        metrics.rows_not_sent(text, "delete").count();
        status.enter(Phase::Streaming);
        status.down(Component::Kafka, text, now);
        status.warn(text.to_owned());
        let read = TablesRead {
            tables: 3,
            remaining: 2,
            pages: 10,
            pages_read: 5,
            rows: 1000,
            ..TablesRead::default()
        };
        status.read_tables(read, now);
        let danger = SlotDanger::Watch;
        let report = SlotReport { retained_bytes: 2048, safe_wal_bytes: None, wal_status: None, danger };
        status.slot(report, Some(text.to_owned()));
        let state = status.snapshot();
        let mut history = History::default();
        history.sample(&state, metrics.topics(), now);
        page(&Overview::new(&state, &metrics, &history, now, SystemTime::now()))
    }

    #[test]
    fn no_text_becomes_markup() {
        // A name may be broken behind its separators.
        let count = |page: &str| page.replace("<wbr>", "").matches('<').count();
        let plain = count(&of("plain"));
        for hostile in ["<script>alert(1)</script>", "\"><img src=x onerror=y>", "</title><b>", "'&amp;<"] {
            let page = of(hostile);
            assert_eq!(count(&page), plain, "{hostile}: {page}");
            assert!(!page.contains(hostile), "{hostile}");
        }
    }

    #[test]
    fn what_matters_is_there() {
        let page = of("orders");
        for expected in [
            "waiting for Kafka",
            "What is wrong",
            "To fix: ",
            "· 2 dead letters",
            "· 1 held key",
            "<link rel=\"icon\"",
            "<dt>Lag</dt><dd><strong>0.0 s</strong>",
            "50 % · 1 of 3 tables · 1,000 rows sent",
            "max_slot_wal_keep_size sets no limit",
            "Rows not sent since the start",
            "the slot keeps 2.00 KiB of WAL",
        ] {
            assert!(page.contains(expected), "{expected} is not in {page}");
        }
    }
}
