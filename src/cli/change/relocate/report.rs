//! Reports of `outboxd move`.

use indicatif::HumanCount;
use serde_json::{Value, json};

use super::args::TargetArgs;
use super::compare::Comparison;
use super::cut_over::{SendOrder, first};
use super::site::Site;
use crate::cli::shell::text::clean;
use crate::error::Diagnose as _;

/// Most ids that are named.
pub(super) const SHOWN_MAX: usize = 10;

pub(super) fn plan(site: &Site, args: &TargetArgs, found: &Comparison, order: &SendOrder) -> String {
    let (name, compared) = (site.slot_name(), compared(site, found));
    let doubt = order.doubt(found).map(|doubt| format!("  order     {doubt}\n")).unwrap_or_default();
    let slot = if site.slot.is_some() { "is there already" } else { "will be made by the first start" };
    let obstacles = site.obstacles();
    if obstacles.is_empty() {
        let next = args.in_commands("outboxd move cut-over TARGET");
        return format!("{compared}{doubt}  slot      {name} {slot}\n✓ next: {next}\n");
    }
    let mut text = format!("{compared}  slot      {name} {slot}\n");
    for obstacle in obstacles {
        let fix = obstacle.fix().map(|fix| format!("    to fix: {}\n", args.in_commands(&fix)));
        text.push_str(&format!("✗ {obstacle}\n{}", fix.unwrap_or_default()));
    }
    text
}

pub(super) fn moved(site: &Site, found: &Comparison) -> String {
    format!(
        "{}✓ the first start sends {} and what is written from now on\n",
        compared(site, found),
        count(found.unsent_count(), "row")
    )
}

pub(super) fn verified(site: &Site, found: &Comparison) -> String {
    let mut text = compared(site, found);
    let mut named = |ids: &[String], without_id: usize, what: &str| {
        for id in ids.iter().take(SHOWN_MAX) {
            text.push_str(&format!("  {what}  {}\n", clean(id)));
        }
        if without_id > 0 {
            text.push_str(&format!("  {what}  {} without an id\n", count(without_id, "row")));
        }
    };
    named(&found.unsent, found.without_id.unsent, "not sent");
    named(&found.twice, found.without_id.twice, "twice   ");
    text.push_str(&if found.is_whole() {
        "✓ each row is in Kafka once\n".to_owned()
    } else {
        let (unsent, twice) = (count(found.unsent_count(), "row"), count(found.twice_count(), "row"));
        format!("✗ {unsent} not in Kafka, {twice} more than once\n")
    });
    text
}

pub(super) fn object(site: &Site, found: &Comparison) -> String {
    format!("{}\n", seen(site, found))
}

/// Returns the plan, with the obstacle to cut-over.
pub(super) fn plan_object(site: &Site, found: &Comparison, order: &SendOrder) -> String {
    let mut object = seen(site, found);
    if let Some(members) = object.as_object_mut() {
        let obstacles: Vec<_> = site.obstacles().iter().map(ToString::to_string).collect();
        members.insert("obstacle".to_owned(), json!(obstacles.first()));
        members.insert("obstacles".to_owned(), json!(obstacles));
        members.insert("order_doubt".to_owned(), json!(order.doubt(found)));
    }
    format!("{object}\n")
}

fn seen(site: &Site, found: &Comparison) -> Value {
    json!({
        "table": site.name(),
        "rows": found.rows,
        "records": found.records,
        "topics": found.topics,
        "sent": found.sent_count(),
        "unsent": found.unsent_count(),
        "other_headers": found.other_headers,
        "twice": found.twice_count(),
        "unsent_without_id": found.without_id.unsent,
        "unsent_ids": first(found),
        "twice_ids": found.twice.iter().take(SHOWN_MAX).collect::<Vec<_>>(),
    })
}

fn compared(site: &Site, found: &Comparison) -> String {
    let other_headers = match found.other_headers {
        0 => String::new(),
        rows => format!(
            "  headers   of the rows that are not in Kafka {} a record there that differs in its headers only. Is topic.prefix what it was when \
             they were sent?\n",
            if rows == 1 { "1 has".to_owned() } else { format!("{} have", HumanCount(number(rows))) }
        ),
    };
    format!(
        "{}: {}, {} in Kafka, {} not\n  records   {} in {}\n{other_headers}",
        site.name(),
        count(found.rows, "row"),
        HumanCount(number(found.sent_count())),
        HumanCount(number(found.unsent_count())),
        HumanCount(found.records),
        count(found.topics.len(), "topic")
    )
}

fn count(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", HumanCount(number(count)))
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
