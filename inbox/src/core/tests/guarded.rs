//! Tests of the rule that one bad event never blocks the other ones.

use super::*;

fn poison() -> Outcome {
    Outcome::Failed { kind: FailureKind::Poison, error: "poison".to_owned() }
}

fn guarded(workers: usize) -> Options {
    Options { failures_in_a_row_max: 3, workers: NonZeroUsize::new(workers).unwrap(), ..options() }
}

/// Fails all jobs until no job is begun any more. Returns the number of failed jobs.
fn fail_all(world: &mut World) -> usize {
    let mut failures = 0;
    loop {
        let jobs = world.jobs();
        if jobs.is_empty() {
            return failures;
        }
        failures += jobs.len();
        jobs.iter().for_each(|job| world.end(job, failed()));
    }
}

/// Invariant: a poison event is not counted as a failure and does not wait.
#[test]
fn many_poison_events_are_given_up_at_once_and_the_others_are_handled() {
    let mut world = World::new(guarded(1), 1);
    for offset in 0..150_i64 {
        world.receive(0, &[(offset, u8::try_from(offset).unwrap())]);
    }
    world.receive(0, &[(150, 200)]);
    for offset in 0..150 {
        let job = world.jobs().remove(0);
        assert_eq!(job.events[0].offset, offset);
        world.end(&job, poison());
        let dead = world.surrenders().remove(0);
        assert_eq!((dead.event.offset, dead.reason), (offset, Reason::Poison));
        world.turn(Input::Surrendered { id: dead.id, has_number: false });
    }
    assert_eq!(offsets(&world.jobs()), [vec![150]]);
}

#[test]
fn a_poison_event_is_given_up_while_everything_else_fails() {
    let mut world = World::new(guarded(1), 1);
    world.receive(0, &[(0, b'a'), (1, b'b'), (2, b'c'), (3, b'd')]);
    assert_eq!(fail_all(&mut world), 3);
    world.pass(Duration::from_secs(1));
    let trial = world.jobs().remove(0);
    assert_eq!(trial.events[0].offset, 3, "the one that has not been tried");
    world.end(&trial, poison());
    assert_eq!(world.surrenders().len(), 1);
    world.pass(Duration::from_secs(6));
    let next = world.jobs().remove(0);
    world.end(&next, Outcome::Done);
    // The guard is closed, and the other events follow.
    assert_eq!(world.jobs().len(), 1);
}

/// Invariant: events that always fail do not prevent attempts at the other events.
#[test]
fn a_failed_trial_goes_behind_those_that_have_not_been_tried() {
    let mut world = World::new(guarded(8), 1);
    for offset in 0..100_i64 {
        world.receive(0, &[(offset, u8::try_from(offset).unwrap())]);
    }
    world.receive(0, &[(100, 200)]);
    for tenths in 0..400 {
        let jobs = world.jobs();
        assert_eq!(world.surrenders().len(), 0);
        if jobs.iter().any(|job| job.events[0].offset == 100) {
            assert!(tenths > 0, "the guard has not tripped");
            return;
        }
        jobs.iter().for_each(|job| world.end(job, failed()));
        world.pass(Duration::from_millis(100));
    }
    panic!("not tried within 40 s");
}

/// Invariant: an outage does not empty the topic into the dead letters, however few attempts an event has.
#[test]
fn an_outage_gives_up_few_events_that_have_one_attempt() {
    let workers = NonZeroUsize::new(8).unwrap();
    let options = Options { retry: Retry::new([]), failures_in_a_row_max: 64, workers, ..Options::default() };
    let mut world = World::new(options, 1);
    for offset in 0..200_i64 {
        world.receive(0, &[(offset, u8::try_from(offset).unwrap())]);
    }
    let mut given_up = 0;
    for _ in 0..600 {
        world.jobs().iter().for_each(|job| world.end(job, failed()));
        for dead in world.surrenders() {
            given_up += 1;
            world.turn(Input::Surrendered { id: dead.id, has_number: false });
        }
        world.pass(Duration::from_millis(100));
    }
    assert!(given_up < 3, "{given_up} events were given up");
}

/// Invariant: repeats give no information about an outage of another service, because no handler is called for them.
#[test]
fn repeats_do_not_end_an_outage() {
    let mut world = World::new(guarded(1), 1);
    world.receive(0, &[(0, b'a'), (1, b'b'), (2, b'c')]);
    assert_eq!(fail_all(&mut world), 3);
    let mut repeats = 0;
    for offset in 3..100 {
        world.receive(0, &[(offset, b'd')]);
        world.pass(Duration::from_secs(1));
        for job in world.jobs() {
            let is_repeat = job.events[0].offset >= 3;
            repeats += usize::from(is_repeat);
            world.end(&job, if is_repeat { Outcome::Repeated } else { failed() });
        }
        assert!(world.core.is_guard_tripped() && world.surrenders().is_empty());
    }
    assert!(repeats > 40, "they are held back: {repeats}");
}

/// Invariant: repeats between the first failures of an outage do not let their events be given up.
#[test]
fn repeats_do_not_hide_the_beginning_of_an_outage() {
    let retry = Retry::new([Duration::from_millis(50)]);
    let mut world = World::new(Options { failures_in_a_row_max: 64, retry, ..guarded(8) }, 1);
    for offset in 0..200_i64 {
        world.receive(0, &[(offset, u8::try_from(offset).unwrap())]);
    }
    for _ in 0..100 {
        for job in world.jobs() {
            let is_repeat = job.events[0].offset % 2 == 0;
            world.end(&job, if is_repeat { Outcome::Repeated } else { failed() });
        }
        assert!(world.surrenders().is_empty());
        world.pass(Duration::from_millis(100));
    }
}

/// Invariant: an attempt that PostgreSQL ends to resolve a conflict is repeated at once and not charged, as long as it does not
/// repeat forever.
#[test]
fn a_deadlock_is_repeated_at_once_and_charged_only_when_it_stays() {
    let mut world = World::new(options(), 1);
    world.receive(0, &[(0, b'a')]);
    let conflict = || Outcome::Uncharged { reason: Uncharged::Conflict, error: "deadlock".to_owned() };
    for _ in 0..Uncharged::Conflict.repeats_max() {
        let job = world.jobs().remove(0);
        assert_eq!(job.attempt, 1);
        world.end(&job, conflict());
        world.pass(Duration::from_secs(1));
    }
    let job = world.jobs().remove(0);
    world.end(&job, conflict());
    world.pass(Duration::from_secs(2));
    assert_eq!(world.jobs().remove(0).attempt, 2);
}

/// Invariant: an event that breaks its connection does not delay other events.
#[test]
fn a_broken_connection_lets_the_others_continue() {
    let mut world = World::new(guarded(1), 1);
    world.receive(0, &[(0, b'a'), (1, b'b')]);
    let job = world.jobs().remove(0);
    world.end(&job, Outcome::Uncharged { reason: Uncharged::Broken, error: "closed".to_owned() });
    assert_eq!(offsets(&world.jobs()), [vec![1]]);
}

#[test]
fn an_error_is_kept_short_and_without_zero_bytes() {
    let mut world = World::new(Options { retry: Retry::new([]), ..options() }, 1);
    world.receive(0, &[(0, b'a')]);
    let job = world.jobs().remove(0);
    let error = format!("x\0y {}", "ä".repeat(500_000));
    world.end(&job, Outcome::Failed { kind: FailureKind::Retry, error });
    let dead = world.surrenders().remove(0);
    assert!(dead.error.len() < 2100 && !dead.error.contains('\0'), "{}", dead.error.len());
}
