//! Tests of the offsets to commit.

use super::*;

#[test]
fn what_kafka_refused_is_committed_again_and_what_it_accepted_after_a_while() {
    let mut world = World::new(options(), 1);
    world.receive(0, &[(0, b'a')]);
    let job = world.jobs().remove(0);
    world.end(&job, Outcome::Done);
    let refused = world.core.commits(world.now);
    assert_eq!(refused.iter().map(|commit| commit.end).collect::<Vec<_>>(), [1]);
    let again = world.core.commits(world.now);
    assert_eq!(again, refused);
    world.core.committed(world.now, &again);
    assert_eq!(world.core.commits(world.now), []);
    world.pass(options().commit_again_after);
    assert_eq!(world.core.commits(world.now), again);
}

#[test]
fn what_kafka_accepted_of_an_assignment_before_does_not_count() {
    let mut world = World::new(options(), 1);
    world.receive(0, &[(0, b'a'), (1, b'b')]);
    let jobs = world.jobs();
    world.end(&jobs[0], Outcome::Done);
    let late = world.core.commits(world.now);
    world.turn(Input::Revoked(partition(0)));
    world.turn(Input::Assigned(partition(0)));
    world.take(BTreeMap::new());
    world.receive(0, &[(1, b'b')]);
    world.core.committed(world.now, &late);
    assert_eq!(world.core.commits(world.now).iter().map(|commit| commit.end).collect::<Vec<_>>(), [1]);
}

#[test]
fn nothing_is_committed_of_a_partition_that_another_consumer_took() {
    let mut world = World::new(options(), 1);
    world.receive(0, &[(0, b'a'), (1, b'b')]);
    let jobs = world.jobs();
    world.end(&jobs[0], Outcome::Done);
    world.end(&jobs[1], Outcome::Fenced);
    assert_eq!(world.core.commits(world.now), []);
}

/// Invariant: an event of a topic that was created again is not taken for the earlier one with its offset, which is still open.
#[test]
fn another_event_with_an_open_offset_is_handled_too() {
    let mut world = World::new(options(), 1);
    world.receive(0, &[(0, b'a'), (1, b'a')]);
    let job = world.jobs().remove(0);
    world.receive(0, &[(0, b'a')]);
    let another = Event { value: Some(b"another".to_vec()), ..Event::clone(&event(0, 0, b'a')) };
    world.turn(Input::Received(Arc::new(another)));
    let mut values = vec![job.events[0].value.clone()];
    world.end(&job, Outcome::Done);
    assert_eq!(world.committed(), Some(0));
    while let Some(job) = world.jobs().pop() {
        values.push(job.events[0].value.clone());
        world.end(&job, Outcome::Done);
    }
    assert_eq!(values, [None, None, Some(b"another".to_vec())], "the same record is handled once");
    assert_eq!(world.committed(), Some(1));
}
