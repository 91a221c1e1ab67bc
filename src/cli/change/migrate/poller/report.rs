//! Reports of a migration from a poller.

use serde_json::{Value, json};

use super::phase::{self, Phase};
use super::site::Site;
use super::steps::drained;
use crate::cli::change::migrate::args::TargetArgs;
use crate::cli::inspect::status::Direct;
use crate::cli::shell::steps;
use crate::cli::shell::steps::Step;

/// Returns the text of `plan`.
pub(super) fn plan(site: &Site, args: &TargetArgs, steps: &[Step]) -> String {
    let mut text = about(site);
    text.push_str(&steps::shown(steps));
    text.push_str("  wait until the poller has sent its own rows\n");
    text.push_str(&steps::shown(&[drained(site)]));
    text.push_str(&format!("✓ {}\n", next(site, args)));
    text
}

pub(super) fn plan_object(site: &Site, args: &TargetArgs, steps: &[Step]) -> String {
    let mut object = object(site, args);
    if let Value::Object(members) = &mut object {
        members.insert("steps".to_owned(), steps::object(steps));
    }
    format!("{object}\n")
}

/// Returns the text of `status`.
pub(super) fn status(site: &Site, args: &TargetArgs) -> String {
    let mut text = about(site);
    if let Some(slot) = &site.slot {
        let direct = Direct::of(site.slot_name().to_owned(), slot, None);
        let behind =
            direct.lag_bytes.map_or_else(|| "-".to_owned(), |bytes| indicatif::HumanBytes(bytes).to_string());
        let reader =
            direct.holder.as_deref().map_or_else(|| "no client".to_owned(), crate::cli::shell::text::clean);
        text.push_str(&format!("  slot      {}, {behind} not confirmed, read by {reader}\n", direct.slot));
    }
    match phase::attention(site) {
        Some(attention) => text.push_str(&format!("✗ {}\n", args.in_commands(&attention))),
        None => text.push_str(&format!("✓ {}\n", next(site, args))),
    }
    text
}

pub(super) fn status_object(site: &Site, args: &TargetArgs) -> String {
    format!("{}\n", object(site, args))
}

fn about(site: &Site) -> String {
    format!(
        "{}: {}\n  mark      {}: {} for the poller\n",
        site.name(),
        said(site.phase()),
        site.mark.column(),
        match site.unsent.rows {
            0 => "no row waits".to_owned(),
            1 => "1 row waits".to_owned(),
            _ => format!("{} wait", site.unsent.shown()),
        }
    )
}

fn object(site: &Site, args: &TargetArgs) -> Value {
    let slot = site.slot.as_ref().map(|slot| Direct::of(site.slot_name().to_owned(), slot, None));
    json!({
        "table": site.name(),
        "mark": site.mark.column(),
        "marked": site.marked,
        "phase": site.phase(),
        "unsent": { "rows": site.unsent.rows, "at_least": site.unsent.at_least },
        "trigger": site.trigger.map(|on| if on { "on" } else { "off" }),
        "slot": slot,
        "attention": phase::attention(site).map(|attention| args.in_commands(&attention)),
        "next": next(site, args),
    })
}

const fn said(phase: Phase) -> &'static str {
    match phase {
        Phase::NotBegun | Phase::Foreign => "the poller's; no migration has begun",
        Phase::Published | Phase::Slotted => "the poller's; the migration has begun",
        Phase::Draining => "new rows are outboxd's; the poller sends its own",
        Phase::Drained => "outboxd's",
        Phase::Finishing => "outboxd's; finishing",
        Phase::Finished => "outboxd's; the migration is finished",
        Phase::Returned => "the poller's again",
    }
}

fn next(site: &Site, args: &TargetArgs) -> String {
    let is_read = site.slot.as_ref().is_some_and(|slot| slot.active_pid.is_some());
    args.in_commands(match site.phase() {
        Phase::NotBegun | Phase::Published | Phase::Slotted => "next: outboxd migrate start TARGET",
        Phase::Foreign => "the publication is not that of a migration",
        Phase::Draining => "next: outboxd migrate start TARGET waits until the poller has none left",
        Phase::Drained if !is_read => {
            let run = site.run.as_deref().unwrap_or("outboxd run -c FILE -X snapshot.mode=no_data");
            return args.in_commands(&format!("next: {run}; back: outboxd migrate rollback TARGET"));
        }
        Phase::Drained => {
            "next: stop the poller, then outboxd migrate finish TARGET; back: outboxd migrate rollback TARGET"
        }
        Phase::Finishing => "next: outboxd migrate finish TARGET continues it",
        Phase::Finished => "nothing is left to do",
        Phase::Returned if is_read => {
            "next: stop outboxd, then outboxd migrate rollback TARGET drops slot and publication"
        }
        Phase::Returned => "next: outboxd migrate rollback TARGET drops slot and publication",
    })
}
