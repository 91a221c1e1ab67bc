//! The oracle against histories at random: it accepts what is right, and finds each thing that is made wrong.

use fastrand::Rng;

use crate::facts::{Allowances, Change, Effect, Need, Seen, Tables};
use crate::oracle::judge;

/// Returns a history of rows that are written and deleted in turn, and of events.
fn history(rng: &mut Rng) -> (Vec<Change>, Vec<Seen>, Tables) {
    let (mut changes, mut seen, mut tables) = (Vec::new(), Vec::new(), Tables::new());
    for number in 0..4 {
        let row = (if number == 0 { "outbox" } else { "a" }.to_owned(), number);
        let mut before: Option<i64> = None;
        for n in 1..=rng.i64(2..9) {
            let effect = match before {
                _ if number == 0 => Effect::Event,
                Some(_) if n > 2 && rng.u32(0..3) == 0 => Effect::Gone,
                _ => Effect::Written,
            };
            let digest = format!("{number}-{n}");
            changes.push(Change { row: row.clone(), n, effect, digest: digest.clone(), need: Need::Record });
            seen.push(Seen {
                partition: ("topic".to_owned(), 0),
                offset: 0,
                key: String::new(),
                row: row.clone(),
                n: if effect == Effect::Gone { before } else { Some(n) },
                effect,
                digest: (effect != Effect::Gone).then_some(digest),
                read: false,
                dead_letter: false,
                by_poller: false,
            });
            before = (effect != Effect::Gone).then_some(n);
        }
        if let (Some(n), true) = (before, number > 0) {
            tables.insert(row, n);
        }
    }
    (changes, seen, tables)
}

fn rules(changes: &[Change], seen: &[Seen], tables: &Tables) -> Vec<String> {
    let verdict = judge(changes, seen, tables, &Allowances::default());
    verdict.violations.iter().map(|violation| violation.split(':').next().unwrap().to_owned()).collect()
}

#[test]
fn what_is_right_is_accepted_and_what_is_wrong_is_found() {
    for seed in 0..500 {
        let rng = &mut Rng::with_seed(seed);
        let (changes, seen, tables) = history(rng);
        assert_eq!(rules(&changes, &seen, &tables), [""; 0], "{seed}");

        // A write or an event is removed, altered, or sent again behind the next record of its row.
        let written: Vec<usize> = (0..seen.len()).filter(|at| seen[*at].effect != Effect::Gone).collect();
        let at = written[rng.usize(0..written.len())];
        let found = |seen: &[Seen], rule: &str| {
            let rules = rules(&changes, seen, &tables);
            assert!(
                rules.iter().any(|other| other == rule),
                "{seed}: {rule} is not in {rules:?}: {changes:?} {seen:?}"
            );
        };
        let mut wrong = seen.clone();
        wrong.remove(at);
        found(&wrong, "lost");
        let mut wrong = seen.clone();
        wrong[at].digest = Some("other".to_owned());
        found(&wrong, "altered");
        let mut wrong = seen.clone();
        wrong.insert(at, seen[at].clone());
        found(&wrong, "repeated");
        let mut wrong = seen.clone();
        wrong.insert(at, Seen { by_poller: true, ..seen[at].clone() });
        found(&wrong, "both");
        let mut wrong = seen.clone();
        wrong[at].n = Some(99);
        found(&wrong, "invented");
        let mut wrong = seen.clone();
        wrong.push(seen[at].clone());
        found(&wrong, "repeated");
        if seen.get(at + 1).is_some_and(|next| next.row == seen[at].row && next.effect != Effect::Gone) {
            wrong = seen.clone();
            wrong.swap(at, at + 1);
            found(&wrong, "reordered");
        }
        // The last record of a row.
        let last = seen.iter().rposition(|record| record.row == seen[at].row).unwrap();
        if seen[at].row.0 == "a" && seen[last].n > seen[at].n && seen[last].effect == Effect::Written {
            let mut wrong = seen.clone();
            wrong.insert(last + 1, seen[at].clone());
            found(&wrong, "stale");
        }
    }
}

/// A dead letter that is sent again has one record more, wherever it comes; a second one is a repeat.
#[test]
fn a_dead_letter_may_be_sent_again_once() {
    let mut rng = Rng::with_seed(1);
    let (changes, mut seen, tables) = history(&mut rng);
    let replayed = Seen { dead_letter: false, ..seen[0].clone() };
    assert_eq!(replayed.effect, Effect::Event);
    seen[0].dead_letter = true;
    seen[0].partition.0 = "dead".to_owned();
    seen.push(replayed.clone());
    let repeats = |seen: &[Seen], replayed| {
        let allowed = Allowances { replayed, ..Allowances::default() };
        judge(&changes, seen, &tables, &allowed)
            .violations
            .iter()
            .filter(|v| v.starts_with("repeated"))
            .count()
    };
    assert_eq!((repeats(&seen, true), repeats(&seen, false)), (0, 1));
    seen.push(replayed);
    assert_eq!(repeats(&seen, true), 1);
}

/// Changes of a row, one of which a snapshot reads as well. When the stream comes again from its beginning, they are repeats.
#[test]
fn a_repeat_behind_a_snapshot_is_in_order() {
    let mut rng = Rng::with_seed(1);
    let (changes, seen, tables) = loop {
        let (changes, seen, tables) = history(&mut rng);
        if seen.iter().filter(|record| record.row.1 == 1).all(|record| record.effect == Effect::Written) {
            break (changes, seen, tables);
        }
    };
    let of_row: Vec<Seen> = seen.into_iter().filter(|record| record.row.1 == 1).collect();
    let changes: Vec<Change> = changes.into_iter().filter(|change| change.row.1 == 1).collect();
    let tables = tables.into_iter().filter(|(row, _)| row.1 == 1).collect();
    let read = Seen { read: true, ..of_row[0].clone() };
    let again = [&of_row[..1], &[read], &of_row[1..], &of_row[..]].concat();
    let found = rules(&changes, &again, &tables);
    assert!(found.iter().all(|rule| rule == "repeated"), "{found:?}");
}
