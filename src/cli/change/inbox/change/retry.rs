//! `outboxd inbox retry`.

use super::changed::Changed;
use super::report::{Action, Report};
use super::{Before, begin, commit, fence, partitions, require, reread};
use crate::cli::change::inbox::args::ChangeArgs;
use crate::cli::change::inbox::error::InboxError;
use crate::cli::change::inbox::parked::Parked;
use crate::cli::change::inbox::reason::Reason;
use crate::cli::change::inbox::tables::Tables;
use crate::error::Exit;

const MAKE_DUE: &str = "UPDATE inbox_parked SET not_before = now() WHERE partition_id = $1 AND \"offset\" = ANY($2) AND not_before > now() RETURNING 1";

/// Runs `outboxd inbox retry`.
pub(in crate::cli::change::inbox) async fn retry(args: &ChangeArgs) -> Result<Exit, InboxError> {
    let tables = Tables::open(&args.tables).await?;
    let (consumer, selection) = (&args.consumer, args.events.selection());
    let events = require(&tables, consumer, &selection).await?;
    let mut report = Report::new(Action::Retry, consumer, args.yes);
    let (due, others): (Vec<Parked>, Vec<Parked>) = events.into_iter().partition(has_attempt);
    report.add_unchanged(others.iter(), fix);
    if !args.yes {
        report.changed.extend(due.iter().map(Changed::event));
        return Ok(report.print(args.tables.json));
    }
    for first in partitions(&due) {
        let before = begin(&tables, first).await?;
        let mut due = reread(&tables, consumer, &selection, first.partition_id).await?;
        due.retain(has_attempt);
        let offsets: Vec<i64> = due.iter().map(|event| event.place.offset).collect();
        let made_due = tables.change(MAKE_DUE, &[&first.partition_id, &offsets]).await?;
        // The transaction that was waited for may have been an attempt at an event that is due. A new epoch would leave its failure
        // uncounted, so that a retry during each attempt would keep the event from ever being given up.
        if !made_due.is_empty() || before == Before::Unused {
            fence(&tables, first.partition_id).await?;
        }
        commit(&tables).await?;
        report.changed.extend(due.iter().map(Changed::event));
    }
    Ok(report.print(args.tables.json))
}

/// Reports whether the event waits for nothing but its time.
fn has_attempt(event: &Parked) -> bool {
    matches!(event.reason(), Reason::Crash | Reason::Retry | Reason::Due)
}

const fn fix(reason: Reason) -> &'static str {
    match reason {
        Reason::DeadLetter => "outboxd inbox release lets its key continue",
        Reason::MissingNumber => "outboxd inbox skip --number gives the missing number up",
        Reason::Behind | Reason::Crash | Reason::Retry | Reason::Due => {
            "it follows the first event of its key"
        }
    }
}
