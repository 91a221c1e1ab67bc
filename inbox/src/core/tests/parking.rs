//! Tests of parked events.

use super::*;

#[test]
fn a_key_is_parked_after_its_attempts_and_its_offset_continues() {
    let mut world =
        World::new(Options { retry: Retry::new([]).park([Duration::from_secs(60)]), ..options() }, 1);
    world.receive(0, &[(0, b'a'), (1, b'a'), (2, b'b')]);
    let jobs = world.jobs();
    world.end(&jobs[1], Outcome::Done);
    world.end(&jobs[0], failed());
    let park = world.parks().remove(0);
    assert_eq!((park.events.len(), park.failed.as_ref().map(|failed| failed.attempts)), (2, Some(1)));
    assert_eq!(world.committed(), Some(0), "not before it is in the table");
    world.turn(Input::Parked { id: park.id, is_parked: true });
    assert_eq!(world.committed(), Some(3));
    world.receive(0, &[(3, b'a'), (4, b'b')]);
    let behind = world.parks().remove(0);
    assert_eq!((behind.events[0].offset, offsets(&world.jobs())), (3, vec![vec![4]]));
    world.turn(Input::Parked { id: behind.id, is_parked: true });
    assert_eq!((world.committed(), world.loads().len()), (Some(4), 0));
    world.pass(Duration::from_secs(72));
    for offset in [0, 1, 3] {
        let load = world.loads().remove(0);
        let attempts = u32::from(offset == 0);
        world.turn(Input::Loaded {
            id: load.id,
            loaded: Loaded::Due { event: event(0, offset, b'a'), attempts, begun: 0 },
        });
        let job = world.jobs().remove(0);
        assert_eq!((job.is_parked, job.events[0].offset, job.attempt), (true, offset, attempts + 1));
        world.end(&job, Outcome::Done);
    }
    let load = world.loads().remove(0);
    world.receive(0, &[(5, b'a')]);
    assert_eq!(world.jobs().len(), 0, "nobody knows yet whether there is more in the table");
    world.turn(Input::Loaded { id: load.id, loaded: Loaded::Nothing });
    assert_eq!(offsets(&world.jobs()), [vec![5]]);
}

#[test]
fn what_was_parked_before_the_partition_moved_is_waited_for() {
    let mut world = World::new(options(), 0);
    world.turn(Input::Assigned(partition(0)));
    world.receive(0, &[(7, b'a'), (8, b'b')]);
    let parked = |wait| ParkedEvent { key: Some(vec![b'a']), offset: 3, wait };
    world.take_with(BTreeMap::new(), vec![parked(Some(Duration::from_secs(9)))]);
    assert_eq!(offsets(&world.jobs()), [vec![8]]);
    let behind = world.parks().remove(0);
    assert_eq!(behind.events[0].offset, 7);
    world.turn(Input::Parked { id: behind.id, is_parked: true });
    world.pass(Duration::from_secs(9));
    assert_eq!(world.loads().len(), 1);
}

#[test]
fn a_key_waits_behind_its_dead_letter_until_it_is_released() {
    let after_dead_letter = AfterDeadLetter::KeyWaits;
    let mut world = World::new(Options { retry: Retry::new([]), after_dead_letter, ..options() }, 1);
    world.receive(0, &[(0, b'a'), (1, b'a'), (2, b'b')]);
    let jobs = world.jobs();
    world.end(&jobs[0], failed());
    let dead = world.surrenders().remove(0);
    assert!(dead.key_waits);
    world.turn(Input::Surrendered { id: dead.id, has_number: false });
    let behind = world.parks().remove(0);
    world.turn(Input::Parked { id: behind.id, is_parked: true });
    assert_eq!((behind.events[0].offset, world.committed()), (1, Some(2)));
    for loaded in [Loaded::Dead, Loaded::Due { event: event(0, 1, b'a'), attempts: 0, begun: 0 }] {
        assert_eq!(world.jobs().len(), 0);
        world.pass(options().release_poll);
        let load = world.loads().remove(0);
        world.turn(Input::Loaded { id: load.id, loaded });
    }
    assert_eq!(offsets(&world.jobs()), [vec![1]]);
}

/// Returns a parked event of key `a`, with a wait in seconds.
fn parked(offset: i64, wait: u64) -> ParkedEvent {
    ParkedEvent { key: Some(vec![b'a']), offset, wait: Some(Duration::from_secs(wait)) }
}

/// Loses the partition and takes it again with these parked events.
fn take_again(world: &mut World, parked: Vec<ParkedEvent>) {
    let tenure = world.core.waiting(true).next().unwrap().clone();
    world.turn(Input::Lost(tenure));
    assert_eq!(world.core.waiting(true).count(), 0);
    world.pass(options().fenced_pause);
    world.take_with(BTreeMap::new(), parked);
}

#[test]
fn a_key_continues_when_its_parked_event_is_gone() {
    let mut world = World::new(options(), 0);
    world.turn(Input::Assigned(partition(0)));
    world.take_with(BTreeMap::new(), vec![parked(3, 3600)]);
    assert_eq!(world.core.waiting(false).count(), 1);
    take_again(&mut world, Vec::new());
    assert_eq!(world.core.waiting(false).count(), 0, "nothing is in the table");
    world.receive(0, &[(7, b'a')]);
    assert_eq!(offsets(&world.jobs()), [vec![7]]);
}

#[test]
fn a_key_continues_earlier_when_its_parked_event_is_due() {
    let mut world = World::new(options(), 0);
    world.turn(Input::Assigned(partition(0)));
    world.take_with(BTreeMap::new(), vec![parked(3, 3600)]);
    take_again(&mut world, vec![parked(3, 0)]);
    assert_eq!(world.loads().len(), 1);
}

#[test]
fn an_event_from_the_table_is_read_again_after_the_partition_was_lost() {
    for is_gone in [false, true] {
        let mut world = World::new(options(), 0);
        world.turn(Input::Assigned(partition(0)));
        world.take_with(BTreeMap::new(), vec![parked(3, 0)]);
        let due = || Loaded::Due { event: event(0, 3, b'a'), attempts: 0, begun: 0 };
        let load = world.loads().remove(0);
        world.turn(Input::Loaded { id: load.id, loaded: due() });
        let job = world.jobs().remove(0);
        world.end(&job, Outcome::Fenced);
        world.receive(0, &[(7, b'a')]);
        world.pass(options().fenced_pause);
        world.take_with(BTreeMap::new(), if is_gone { Vec::new() } else { vec![parked(3, 0)] });
        if !is_gone {
            assert_eq!(world.jobs().len(), 0, "the operator may have changed it");
            let load = world.loads().remove(0);
            world.turn(Input::Loaded { id: load.id, loaded: due() });
            let job = world.jobs().remove(0);
            assert_eq!((job.is_parked, job.events[0].offset), (true, 3));
            world.end(&job, Outcome::Done);
            let load = world.loads().remove(0);
            world.turn(Input::Loaded { id: load.id, loaded: Loaded::Nothing });
        }
        assert_eq!(offsets(&world.jobs()), [vec![7]], "{is_gone}");
    }
}

#[test]
fn an_event_is_tried_again_while_its_dead_letter_is_uncertain() {
    let after_dead_letter = AfterDeadLetter::KeyWaits;
    let mut world = World::new(Options { retry: Retry::new([]), after_dead_letter, ..options() }, 1);
    world.receive(0, &[(0, b'a'), (1, b'a')]);
    let job = world.jobs().remove(0);
    world.end(&job, failed());
    let dead = world.surrenders().remove(0);
    world.turn(Input::NotSurrendered { id: dead.id });
    assert_eq!((world.jobs().len(), world.committed()), (0, None));
    world.pass(options().fenced_pause);
    world.take(BTreeMap::new());
    let job = world.jobs().remove(0);
    assert_eq!((job.events[0].offset, job.attempt, world.committed()), (0, 2, Some(0)));
    world.end(&job, failed());
    assert!(world.surrenders()[0].key_waits);
}
