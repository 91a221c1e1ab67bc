//! Reports of a migration from another slot.

use serde_json::json;

use super::site::{Phase, Site};
use crate::cli::change::migrate::args::TargetArgs;
use crate::cli::inspect::status::Direct;
use crate::cli::prove::check::tables;
use crate::cli::shell::steps;
use crate::cli::shell::steps::Step;
use crate::cli::shell::text::clean;
use crate::postgres::SlotFacts;

pub(super) fn plan(site: &Site, args: &TargetArgs, step: &Step) -> String {
    format!("{}{}✓ {}\n", about(site), steps::shown(std::slice::from_ref(step)), next(site, args))
}

pub(super) fn status(site: &Site, args: &TargetArgs) -> String {
    let end = site
        .attention()
        .map_or_else(|| format!("✓ {}", next(site, args)), |attention| format!("✗ {attention}"));
    format!("{}{end}\n", about(site))
}

pub(super) fn object(site: &Site, args: &TargetArgs, step: Option<&Step>) -> String {
    let direct = |name: &str, slot: &Option<SlotFacts>| {
        slot.as_ref().map(|slot| Direct::of(name.to_owned(), slot, None))
    };
    let object = json!({
        "tables": site.tables.iter().map(tables::name).collect::<Vec<_>>(),
        "phase": site.phase(),
        "from": direct(&site.from, &site.theirs),
        "slot": direct(site.name(), &site.ours),
        "attention": site.attention(),
        "next": next(site, args),
        "steps": step.map(|step| steps::object(std::slice::from_ref(step))),
    });
    format!("{object}\n")
}

fn about(site: &Site) -> String {
    let line = |what: &str, name: &str, slot: &Option<SlotFacts>| match slot {
        None => format!("  {what}{name}, not there\n"),
        Some(slot) => {
            let slot = Direct::of(name.to_owned(), slot, None);
            let at = slot.confirmed.as_deref().unwrap_or("-");
            let reader = slot.holder.as_deref().map_or_else(|| "no client".to_owned(), clean);
            format!("  {what}{name} at {at}, read by {reader}\n")
        }
    };
    format!("{}{}", line("from      ", &site.from, &site.theirs), line("slot      ", site.name(), &site.ours))
}

fn next(site: &Site, args: &TargetArgs) -> String {
    let is_read = |slot: &Option<SlotFacts>| slot.as_ref().is_some_and(|slot| slot.active_pid.is_some());
    args.in_commands(match site.phase() {
        Phase::NotBegun if is_read(&site.theirs) => {
            "next: stop the other program, then outboxd migrate start TARGET"
        }
        Phase::NotBegun => "next: outboxd migrate start TARGET",
        Phase::Copied if is_read(&site.ours) => {
            "next: outboxd migrate finish TARGET; back: stop outboxd, then outboxd migrate rollback TARGET"
        }
        Phase::Copied => "next: outboxd run -c FILE; back: outboxd migrate rollback TARGET",
        Phase::Finished => "nothing is left to do",
    })
}
