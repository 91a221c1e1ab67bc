//! The oracle itself.

use crate::oracle::{Effect, Facts, Need, Sent, judge};

fn facts() -> Facts {
    let mut facts = Facts::default();
    for (number, need) in (0..).zip([Need::Applied, Need::Applied, Need::DeadLetter, Need::Either]) {
        let sent = Sent { key: "k".into(), number, amount: 2, need };
        facts.sent.insert(format!("e{number}"), sent);
    }
    facts.effects = [0, 1, 3].map(effect).into();
    facts.balances.insert("k".into(), 6);
    facts.dead_letters = vec!["e2".into(), "e2".into()];
    facts
}

fn effect(number: i64) -> Effect {
    Effect { id: format!("e{number}"), key: "k".into(), number, amount: 2 }
}

#[track_caller]
fn finds(rule: &str, change: impl FnOnce(&mut Facts)) {
    let mut facts = facts();
    assert_eq!(judge(&facts), [].into());
    change(&mut facts);
    let found = judge(&facts);
    assert!(found.iter().any(|violation| violation.starts_with(rule)), "{rule}: {found:?}");
}

#[test]
fn each_rule_finds_its_violation() {
    finds("lost", |facts| {
        facts.effects.remove(1);
    });
    finds("lost", |facts| facts.dead_letters.clear());
    finds("repeated", |facts| facts.effects.push(effect(3)));
    finds("invented", |facts| facts.effects.push(effect(9)));
    finds("invented", |facts| facts.dead_letters.push("e9".into()));
    finds("altered", |facts| facts.effects[0].amount = 3);
    finds("altered", |facts| facts.effects[0].key = "other".into());
    finds("reordered", |facts| facts.effects.swap(0, 1));
    finds("given up", |facts| facts.dead_letters.push("e0".into()));
    finds("applied", |facts| facts.effects.insert(2, effect(2)));
    finds("both", |facts| facts.dead_letters.push("e3".into()));
    finds("believed", |facts| {
        facts.sent.get_mut("e3").unwrap().need = Need::DeadLetterAnyhow;
    });
    finds("torn", |facts| {
        facts.balances.insert("k".into(), 5);
    });
    finds("torn", |facts| facts.balances.clear());
}

#[test]
fn operations_are_allowances() {
    let mut facts = facts();
    facts.effects.push(effect(0));
    facts.balances.insert("k".into(), 8);
    facts.operations.forgotten.insert("e0".into(), 1);
    facts.sent.insert("e4".into(), Sent { key: "k".into(), number: 4, amount: 2, need: Need::Either });
    facts.operations.skipped.insert("e4".into());
    facts.dead_letters.push("e3".into());
    facts.operations.restored.insert("e3".into());
    assert_eq!(judge(&facts), [].into());
}

#[test]
fn few_events_may_be_given_up_in_an_outage() {
    let mut facts = facts();
    facts.dead_letters.push("e0".into());
    facts.effects.remove(0);
    facts.balances.insert("k".into(), 4);
    facts.outages.given_up.insert("e0".into());
    let given_up = |facts: &Facts| judge(facts).iter().any(|violation| violation.starts_with("given up"));
    assert!(given_up(&facts), "more than the guard looks at");
    facts.outages.given_up_max = 1;
    assert_eq!(judge(&facts), [].into());
    facts.outages.given_up = ["e1".into()].into();
    assert!(given_up(&facts), "for another reason");
}
