//! `outboxd inbox release`.

use super::changed::Changed;
use super::report::{Action, Report};
use super::{UNPARK, begin, commit, partitions, require, reread};
use crate::cli::change::inbox::args::ChangeArgs;
use crate::cli::change::inbox::error::InboxError;
use crate::cli::change::inbox::parked::Parked;
use crate::cli::change::inbox::place::Selection;
use crate::cli::change::inbox::reason::Reason;
use crate::cli::change::inbox::tables::{Tables, get};
use crate::error::Exit;

/// Assigns the position of a dead letter to an event.
const MOVE: &str =
    "UPDATE inbox_parked SET \"offset\" = $3, not_before = now() WHERE partition_id = $1 AND \"offset\" = $2";
/// The later events of a dead letter's key with the same content.
const SAME_CONTENT: &str = "SELECT later.\"offset\" FROM inbox_parked AS dead JOIN inbox_parked AS later \
     ON later.partition_id = dead.partition_id AND later.key = dead.key AND later.value = dead.value \
     WHERE dead.partition_id = $1 AND dead.\"offset\" = $2 AND later.\"offset\" > dead.\"offset\" AND NOT later.is_dead \
     ORDER BY later.\"offset\"";

/// Runs `outboxd inbox release`.
pub(in crate::cli::change::inbox) async fn release(args: &ChangeArgs) -> Result<Exit, InboxError> {
    let tables = Tables::open(&args.tables).await?;
    let (consumer, selection) = (&args.consumer, args.events.selection());
    let events = require(&tables, consumer, &selection).await?;
    let mut report = Report::new(Action::Release, consumer, args.yes);
    report.add_unchanged(events.iter().filter(|event| !event.is_dead), fix);
    let dead: Vec<Parked> = events.into_iter().filter(|event| event.is_dead).collect();
    for first in partitions(&dead) {
        if args.yes {
            begin(&tables, first).await?;
        }
        let events = reread(&tables, consumer, &selection, first.partition_id).await?;
        for letter in events.iter().filter(|event| event.is_dead) {
            let again = find_again(&tables, consumer, letter).await?;
            if args.yes {
                replace(&tables, letter, again.as_ref()).await?;
            }
            let replaced_by = again.map(|again| again.place.to_string());
            report.changed.push(Changed { replaced_by, ..Changed::event(letter) });
        }
        if args.yes {
            commit(&tables).await?;
        }
    }
    Ok(report.print(args.tables.json))
}

/// Removes a dead letter. The event that was sent again replaces it, before those that have waited for it.
async fn replace(tables: &Tables, letter: &Parked, again: Option<&Parked>) -> Result<(), InboxError> {
    let (partition, offset) = (letter.partition_id, letter.place.offset);
    tables.change(UNPARK, &[&partition, &offset]).await?;
    if let Some(again) = again {
        tables.change(MOVE, &[&partition, &again.place.offset, &offset]).await?;
    }
    Ok(())
}

/// Returns the waiting event of the key that is the dead letter sent again: with the same id, or without ids with the same value.
async fn find_again(tables: &Tables, consumer: &str, letter: &Parked) -> Result<Option<Parked>, InboxError> {
    let Some(key) = letter.key() else { return Ok(None) };
    let of_key = Selection::Key(key.to_vec());
    let mut waiting = reread(tables, consumer, &of_key, letter.partition_id).await?;
    waiting.retain(|event| !event.is_dead && event.place.offset > letter.place.offset);
    if letter.id().is_some() {
        return Ok(waiting.into_iter().find(|event| is_same(event, letter)));
    }
    let rows = tables.query(SAME_CONTENT, &[&letter.partition_id, &letter.place.offset]).await?;
    let offsets = rows.iter().map(|row| get(row, 0)).collect::<Result<Vec<i64>, _>>()?;
    Ok(waiting.into_iter().find(|event| event.id().is_none() && offsets.contains(&event.place.offset)))
}

/// Compares ids, and for CloudEvents their sources.
fn is_same(one: &Parked, other: &Parked) -> bool {
    let source = |event: &Parked| event.event.headers.last("ce_source").map(<[u8]>::to_vec);
    one.id() == other.id() && source(one) == source(other)
}

const fn fix(reason: Reason) -> &'static str {
    match reason {
        Reason::MissingNumber => "outboxd inbox skip --number gives the missing number up",
        Reason::Retry | Reason::Crash => "outboxd inbox retry makes its next attempt due",
        Reason::DeadLetter | Reason::Behind | Reason::Due => "no dead letter; it continues with its key",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::change::inbox::parked::tests::parked;

    #[test]
    fn an_event_is_the_same_by_its_id_and_the_source_of_cloud_events() {
        let with = |headers: &[(&str, &str)]| {
            let mut event = parked(1);
            for (name, value) in headers {
                event.event.headers.push(*name, Some(value.as_bytes().to_vec()));
            }
            event
        };
        assert!(is_same(&with(&[("id", "a")]), &with(&[("id", "a"), ("x", "y")])));
        assert!(!is_same(&with(&[("id", "a")]), &with(&[("id", "b")])));
        let cloud = |source| with(&[("ce_id", "1"), ("ce_source", source)]);
        assert!(is_same(&cloud("a"), &cloud("a")) && !is_same(&cloud("a"), &cloud("b")));
    }
}
