//! Tests of events that must wait.

use super::*;

#[test]
fn an_event_that_must_wait_is_waited_for_and_others_continue() {
    let batch = NonZeroUsize::new(10).unwrap();
    let mut world = World::new(Options { batch, ..options() }, 1);
    let until = world.now + Duration::from_secs(60);
    world.turn(Input::Delayed(event(0, 0, b'a'), until));
    world.receive(0, &[(1, b'b')]);
    assert_eq!(offsets(&world.jobs()), [vec![1]]);
    world.turn(Input::Delayed(event(0, 2, b'c'), until));
    world.pass(Duration::from_secs(59));
    assert_eq!((world.jobs().len(), world.core.next_wake()), (0, Some(until)));
    world.pass(Duration::from_secs(1));
    let mut both = offsets(&world.jobs());
    both.sort();
    assert_eq!(both, [vec![0], vec![2]]);
}
