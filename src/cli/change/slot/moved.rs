//! `outboxd slot drop` and `advance`.

use std::sync::Arc;

use indicatif::{HumanBytes, HumanCount};
use serde_json::json;

use super::Target;
use super::args::{AdvanceArgs, DropArgs};
use super::error::SlotError;
use super::loss::{Changes, Loss};
use crate::cli::args::ConfigArgs;
use crate::cli::run::assemble::assemble;
use crate::cli::shell::ask::{Answer, confirmed};
use crate::cli::shell::next_start::next_start_without_slot;
use crate::cli::{print, print_message};
use crate::error::Exit;
use crate::postgres::Error;

/// Advice about what was not sent.
const REMAINS: &str = "  rows stay in their tables: -X slot.recovery=snapshot or snapshot.mode=initial sends what is in the table then";

/// Runs `outboxd slot drop`.
pub(super) async fn drop_slot(args: &DropArgs) -> Result<Exit, SlotError> {
    let target = Target::open(&args.target).await?;
    let facts = target.unread().await?;
    let loss = Loss::of(&target.sql, &target.name, &facts, &target.options.publication.name, None).await;
    print_message(&loss_text(&target.name, target.is_own(), &loss));
    let next = if target.is_own() { after_drop(&target, &args.target.config).await } else { None };
    if let Some((summary, fix)) = &next {
        let fix = fix.iter().map(|fix| format!("\n    to fix: {fix}")).collect::<String>();
        print_message(&args.target.config.in_commands(&format!("  then {summary}{fix}")));
    }
    let answer = confirmed(&target.name, args.yes, "drops it").await;
    let done = answer == Answer::Yes;
    if done {
        let drop_it = "select pg_drop_replication_slot($1)";
        target.sql.query("dropping the replication slot", drop_it, &[&target.name]).await?;
    }
    let text = if done { format!("dropped {}\n", target.name) } else { String::new() };
    report(args.target.json, &target.name, &loss, done, &text);
    Ok(answer.exit())
}

/// Returns the next start's action without the slot; none where the configuration is of no relay.
async fn after_drop(target: &Target, config: &ConfigArgs) -> Option<(String, Option<String>)> {
    let parts = Arc::new(assemble(config).ok()?.parts);
    Some(next_start_without_slot(&parts, &target.sql).await)
}

/// Runs `outboxd slot advance`.
pub(super) async fn advance(args: &AdvanceArgs) -> Result<Exit, SlotError> {
    let target = Target::open(&args.target).await?;
    let facts = target.unread().await?;
    let (slot, to) = (target.name.clone(), args.to);
    if to > facts.server_lsn {
        return Err(SlotError::BeyondTheEnd { to, end: facts.server_lsn });
    }
    if let Some(confirmed) = facts.confirmed_flush_lsn.filter(|confirmed| to < *confirmed) {
        return Err(SlotError::Backwards { slot, confirmed, to });
    }
    let loss = Loss::of(&target.sql, &slot, &facts, &target.options.publication.name, Some(to)).await;
    print_message(&loss_text(&slot, target.is_own(), &loss));
    let answer = confirmed(&slot, args.yes, "moves it").await;
    let done = answer == Answer::Yes;
    let mut text = String::new();
    if done {
        let at = move_to(&target, &to.to_string()).await?;
        text = format!("moved {slot} to {at}\n");
        print_message(&format!(
            "  start outboxd once with -X outboxd.position.accept={at}: it knows where the slot was"
        ));
    }
    report(args.target.json, &slot, &loss, done, &text);
    Ok(answer.exit())
}

async fn move_to(target: &Target, to: &str) -> Result<String, Error> {
    const DOING: &str = "moving the replication slot";
    let advance = "select end_lsn::text from pg_replication_slot_advance($1, $2::text::pg_lsn)";
    let rows = target.sql.query(DOING, advance, &[&target.name, &to]).await?;
    let row = rows.first().ok_or(Error::Unexpected { message: "empty answer".to_owned(), doing: DOING })?;
    row.try_get(0).map_err(|error| Error::sql(DOING, error))
}

fn report(as_json: bool, slot: &str, loss: &Loss, done: bool, text: &str) {
    if as_json {
        print(&format!("{}\n", json!({ "slot": slot, "lost": loss, "done": done })));
    } else {
        print(text);
    }
}

/// Returns a description of the loss.
fn loss_text(slot: &str, is_own: bool, loss: &Loss) -> String {
    let range = format!("{} to {}", loss.from.as_deref().unwrap_or("its begin"), loss.to);
    let bytes = loss.bytes.map_or_else(|| "WAL".to_owned(), |bytes| format!("{} of WAL", HumanBytes(bytes)));
    let mut text = format!("slot {slot} would never send {bytes}, {range}:\n  {}", changes(loss));
    if !is_own && loss.changes.is_some() {
        let counted = format!(
            "\n  counted in publication {:?}; who reads this slot may name another one",
            loss.publication
        );
        text.push_str(&counted);
    }
    let nothing = loss.changes.as_ref().is_some_and(|changes| changes.rows == 0 && !changes.at_least);
    if !nothing {
        text.push('\n');
        text.push_str(REMAINS);
    }
    text
}

fn changes(loss: &Loss) -> String {
    let Some(Changes { rows, transactions, at_least, first, last }) = &loss.changes else {
        let because = loss.uncounted_because.as_deref().unwrap_or_default();
        return format!("its rows cannot be counted: {because}");
    };
    let least = if *at_least { "at least " } else { "" };
    let when = match (first, last) {
        (Some(first), Some(last)) if !at_least => format!(", committed {first} to {last}"),
        (Some(first), Some(_)) => format!(", committed from {first} on"),
        _ => String::new(),
    };
    match rows {
        0 if !at_least => "no row of a published table".to_owned(),
        _ => {
            let (rows, transactions) = (plural(*rows, "row"), plural(*transactions, "transaction"));
            format!("{least}{rows} in {transactions}{when}")
        }
    }
}

fn plural(number: i64, what: &str) -> String {
    let count = HumanCount(u64::try_from(number).unwrap_or_default());
    if number == 1 { format!("{count} {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(changes: Option<Changes>) -> Loss {
        Loss {
            from: Some("0/10".to_owned()),
            to: "0/810".to_owned(),
            bytes: Some(2048),
            publication: "p".to_owned(),
            uncounted_because: changes.is_none().then(|| "no right".to_owned()),
            changes,
        }
    }

    #[test]
    fn the_loss_is_reported_before_it_happens() {
        let some = Changes {
            rows: 1214,
            transactions: 57,
            at_least: false,
            first: Some("A".to_owned()),
            last: Some("B".to_owned()),
        };
        let none = Changes { rows: 0, transactions: 0, first: None, last: None, ..some.clone() };
        let cases = [
            (Some(some.clone()), "  1,214 rows in 57 transactions, committed A to B\n  rows stay"),
            (
                Some(Changes { at_least: true, ..some }),
                "  at least 1,214 rows in 57 transactions, committed from A on\n",
            ),
            (Some(none), "  no row of a published table"),
            (None, "  its rows cannot be counted: no right\n  rows stay"),
        ];
        for (changes, expected) in cases {
            let text = loss_text("orders", true, &loss(changes));
            assert!(
                text.starts_with("slot orders would never send 2.00 KiB of WAL, 0/10 to 0/810:\n"),
                "{text}"
            );
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn of_another_slot_the_counted_publication_is_reported() {
        let none = Changes { rows: 0, transactions: 0, at_least: false, first: None, last: None };
        let other = loss_text("other", false, &loss(Some(none.clone())));
        assert!(
            other.ends_with(
                "  no row of a published table\n  counted in publication \"p\"; who reads this slot may name another one"
            ),
            "{other}"
        );
        assert!(!loss_text("orders", true, &loss(Some(none))).contains("counted in"));
        assert!(!loss_text("other", false, &loss(None)).contains("counted in"), "nothing was counted");
    }
}
