use indicatif::HumanCount;
use serde_json::json;

use super::compare::Comparison;
use super::cut_over::first;
use super::site::Site;
use crate::cli::text::clean;

/// So many ids are named.
pub(super) const SHOWN_MAX: usize = 10;

pub(super) fn plan(site: &Site, found: &Comparison) -> String {
    let slot = match &site.slot {
        Some(_) => format!(
            "{} is there already: drop it first, if nobody reads it: outboxd slot drop -c FILE",
            site.slot_name()
        ),
        None => format!("{} will be made by the first start", site.slot_name()),
    };
    format!("{}  slot      {slot}\n✓ next: outboxd move cut-over\n", compared(site, found))
}

pub(super) fn moved(site: &Site, found: &Comparison) -> String {
    format!(
        "{}✓ the first start sends {} and what is written from now on\n",
        compared(site, found),
        count(found.unsent.len(), "row")
    )
}

pub(super) fn verified(site: &Site, found: &Comparison) -> String {
    let mut text = compared(site, found);
    let mut named = |ids: &[String], what: &str| {
        for id in ids.iter().take(SHOWN_MAX) {
            text.push_str(&format!("  {what}  {}\n", clean(id)));
        }
    };
    named(&found.unsent, "not sent");
    named(&found.twice, "twice   ");
    text.push_str(&if found.is_whole() {
        "✓ each row is in Kafka once\n".to_owned()
    } else {
        let (unsent, twice) = (count(found.unsent.len(), "row"), count(found.twice.len(), "row"));
        format!("✗ {unsent} not in Kafka, {twice} more than once\n")
    });
    text
}

pub(super) fn object(site: &Site, found: &Comparison) -> String {
    let object = json!({
        "table": site.name(),
        "rows": found.rows,
        "records": found.records,
        "topics": site.topics,
        "sent": found.sent.len(),
        "unsent": found.unsent.len(),
        "twice": found.twice.len(),
        "unsent_ids": first(found),
        "twice_ids": found.twice.iter().take(SHOWN_MAX).collect::<Vec<_>>(),
    });
    format!("{object}\n")
}

fn compared(site: &Site, found: &Comparison) -> String {
    format!(
        "{}: {}, {} in Kafka, {} not\n  records   {} in {}\n",
        site.name(),
        count(found.rows, "row"),
        HumanCount(number(found.sent.len())),
        HumanCount(number(found.unsent.len())),
        HumanCount(found.records),
        count(site.topics.len(), "topic")
    )
}

fn count(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", HumanCount(number(count)))
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
