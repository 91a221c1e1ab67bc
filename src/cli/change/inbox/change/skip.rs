//! `outboxd inbox skip`.

use super::changed::Changed;
use super::report::{Action, Report};
use super::sequence::{KeyOfTopic, Numbers, mark_dead, pass};
use super::{UNPARK, begin, commit, fence, require, reread};
use crate::cli::change::inbox::args::SkipArgs;
use crate::cli::change::inbox::error::InboxError;
use crate::cli::change::inbox::parked::Parked;
use crate::cli::change::inbox::place::Selection;
use crate::cli::change::inbox::reason::Reason;
use crate::cli::change::inbox::tables::Tables;
use crate::error::Exit;

const FORGET_BEGUN: &str = "DELETE FROM inbox_attempt WHERE partition_id = $1 AND \"offset\" = $2";

/// The most numbers of a command: each has a row.
const NUMBERS_MAX: i64 = 10_000;

/// Target of a skip.
#[derive(Debug)]
enum Target<'e> {
    /// A parked event, with its number if that is waited for or will be.
    Event { event: &'e Parked, number: Option<i64> },
    /// Numbers that were not received.
    Missing { waiting: &'e Parked, numbers: Numbers },
}

/// Runs `outboxd inbox skip`.
pub(in crate::cli::change::inbox) async fn skip(args: &SkipArgs) -> Result<Exit, InboxError> {
    let tables = Tables::open(&args.tables).await?;
    let (consumer, selection) = (&args.consumer, args.event.selection());
    let events = require(&tables, consumer, &selection).await?;
    let mut report = Report::new(Action::Skip, consumer, args.yes);
    let by_key = matches!(selection, Selection::Key(_));
    let target = decide(consumer, &events, by_key, args.number, args.through)?;
    if args.yes {
        let first = target.event();
        begin(&tables, first).await?;
        let events = reread(&tables, consumer, &selection, first.partition_id).await?;
        // Its key may have continued since.
        let what = selection.to_string();
        if events.first().is_none_or(|event| event.place != first.place) {
            return Err(InboxError::NotParked { consumer: consumer.clone(), what });
        }
        let target = decide(consumer, &events, by_key, args.number, args.through)?;
        target.apply(&tables, consumer).await?;
        fence(&tables, first.partition_id).await?;
        commit(&tables).await?;
        report.changed = target.changed();
    } else {
        report.changed = target.changed();
    }
    Ok(report.print(args.tables.json))
}

/// Returns what is skipped. The events are in their order.
fn decide<'e>(
    consumer: &str,
    events: &'e [Parked],
    by_key: bool,
    number: Option<i64>,
    through: Option<i64>,
) -> Result<Target<'e>, InboxError> {
    let first = events.first().ok_or(InboxError::WrongNumber {
        number: number.unwrap_or_default(),
        next: None,
        waiting: None,
    })?;
    let place = first.place.to_string();
    match (first.reason(), number) {
        (Reason::DeadLetter, _) => Err(InboxError::IsDead { consumer: consumer.to_owned(), place }),
        (Reason::MissingNumber, Some(number)) if by_key => {
            missing(events, first, Numbers { first: number, last: through.unwrap_or(number) })
        }
        (_, Some(number)) if through.is_some() => {
            Err(InboxError::WrongNumber { number, next: first.next, waiting: None })
        }
        (_, given) => match (first.number.or(given), first.next) {
            (None, Some(next)) => Err(InboxError::NeedsNumber { place, next }),
            // Its number is not known from the table, and nothing before it is missing.
            (Some(number), Some(next)) if first.number.is_none() && number > next => {
                Err(InboxError::WrongNumber { number, next: Some(next), waiting: None })
            }
            (number, _) => Ok(Target::Event { event: first, number }),
        },
    }
}

/// Returns the missing numbers to skip: they must be the next ones of the key, and before all that wait.
fn missing<'e>(events: &'e [Parked], first: &'e Parked, numbers: Numbers) -> Result<Target<'e>, InboxError> {
    let of_key = events.iter().filter(|event| event.reason() == Reason::MissingNumber);
    let waiting = of_key.filter_map(|event| event.number).min();
    let is_next = first.next.is_none_or(|next| next == numbers.first);
    let is_before = waiting.is_some_and(|waiting| numbers.last < waiting) && numbers.first <= numbers.last;
    let count = numbers.last.saturating_sub(numbers.first).saturating_add(1);
    if is_next && is_before && count > NUMBERS_MAX {
        return Err(InboxError::TooManyNumbers { count, max: NUMBERS_MAX });
    }
    if is_next && is_before {
        return Ok(Target::Missing { waiting: first, numbers });
    }
    let number = if is_next { numbers.last } else { numbers.first };
    Err(InboxError::WrongNumber { number, next: first.next.filter(|_| !is_next), waiting })
}

impl Target<'_> {
    /// Returns the event whose partition is concerned.
    const fn event(&self) -> &Parked {
        match self {
            Self::Event { event, .. } => event,
            Self::Missing { waiting, .. } => waiting,
        }
    }

    async fn apply(&self, tables: &Tables, consumer: &str) -> Result<(), InboxError> {
        match self {
            Self::Event { event, number } => {
                let (partition, offset) = (event.partition_id, event.place.offset);
                tables.change(UNPARK, &[&partition, &offset]).await?;
                tables.change(FORGET_BEGUN, &[&partition, &offset]).await?;
                let (Some(number), Some(key)) = (number, event.key()) else { return Ok(()) };
                let of = KeyOfTopic { consumer, topic: &event.place.topic, key };
                // One that was passed before is a dead letter that was received again, and remains one.
                if event.next.is_none_or(|next| *number >= next) {
                    mark_dead(tables, of, Numbers::one(*number)).await?;
                }
                // Without a next number, those before this one may still be received.
                if event.reason() != Reason::MissingNumber {
                    pass(tables, of, *number).await?;
                }
            }
            Self::Missing { waiting, numbers } => {
                let (topic, key) = (&waiting.place.topic, waiting.key().unwrap_or_default());
                let of = KeyOfTopic { consumer, topic, key };
                mark_dead(tables, of, *numbers).await?;
                pass(tables, of, numbers.first).await?;
            }
        }
        Ok(())
    }

    fn changed(&self) -> Vec<Changed> {
        match self {
            Self::Event { event, number } => vec![Changed { number: *number, ..Changed::event(event) }],
            Self::Missing { waiting, numbers } => (numbers.first..=numbers.last)
                .map(|number| Changed { number: Some(number), ..Changed::with_key(waiting.key()) })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::change::inbox::parked::tests::parked;
    use crate::error::Diagnose as _;

    fn waiting(offset: i64, number: i64, next: Option<i64>) -> Parked {
        Parked { number: Some(number), next, is_due: true, ..parked(offset) }
    }

    fn outcome(events: &[Parked], by_key: bool, number: Option<i64>, through: Option<i64>) -> String {
        match decide("payments", events, by_key, number, through) {
            Ok(Target::Event { event, number }) => format!("event {} {number:?}", event.place.offset),
            Ok(Target::Missing { numbers, .. }) => format!("missing {} to {}", numbers.first, numbers.last),
            Err(error) => error.fix().unwrap_or_default(),
        }
    }

    #[test]
    fn an_event_is_skipped_with_its_number() {
        let numbered = Parked { next: Some(4), ..parked(7) };
        for (event, number, expected) in [
            (parked(7), None, "event 7 None"),
            (numbered.clone(), None, "--number 4, the next number of its key"),
            (numbered.clone(), Some(4), "event 7 Some(4)"),
            (numbered.clone(), Some(3), "event 7 Some(3)"),
            (numbered.clone(), Some(5), "--number 4, the next number of the key"),
            (Parked { number: Some(4), ..numbered.clone() }, None, "event 7 Some(4)"),
        ] {
            assert_eq!(outcome(&[event], true, number, None), expected, "{number:?}");
        }
        let dead = Parked { is_dead: true, ..parked(7) };
        assert!(
            outcome(&[dead], true, None, None)
                .starts_with("outboxd inbox release --consumer payments --at t:0:7 --yes")
        );
    }

    #[test]
    fn missing_numbers_are_the_next_ones_before_those_that_wait() {
        let events = [waiting(7, 9, Some(4)), waiting(8, 6, Some(4))];
        assert_eq!(outcome(&events, true, Some(4), None), "missing 4 to 4");
        assert_eq!(outcome(&events, true, Some(4), Some(5)), "missing 4 to 5");
        assert!(outcome(&events, true, Some(4), Some(6)).contains("less than 6"));
        assert!(outcome(&events, true, Some(5), None).contains("--number 4,"));
        assert!(outcome(&events, true, Some(4), Some(3)).contains("less than 6"));
        // Without a number, or by its place, the event that waits is skipped itself.
        assert_eq!(outcome(&events, true, None, None), "event 7 Some(9)");
        assert_eq!(outcome(&events[1..], false, Some(6), None), "event 8 Some(6)");
        let unknown = [waiting(7, 9, None)];
        assert_eq!(outcome(&unknown, true, Some(8), None), "missing 8 to 8");
        assert!(outcome(&unknown, true, Some(9), None).contains("less than 9"));
    }
}
