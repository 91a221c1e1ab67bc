use std::fmt::Debug;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(20);

/// How long anything may take that is not itself about time. Generous, since two cores may run ten servers.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for `condition`; panics with `what` when it does not come true in time.
#[track_caller]
pub(crate) fn eventually(within: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    eventually_some(within, what, || condition().then_some(()));
}

/// Waits for a value; panics with `what` when there is none in time.
#[track_caller]
pub(crate) fn eventually_some<T>(within: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + within;
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        pause();
    }
}

/// Waits until two values are the same; panics with both when they still differ.
#[track_caller]
pub(crate) fn eventually_eq<T: PartialEq + Debug>(
    within: Duration,
    expected: &T,
    mut look: impl FnMut() -> T,
) {
    let deadline = Instant::now() + within;
    loop {
        let actual = look();
        if actual == *expected {
            return;
        }
        assert!(Instant::now() < deadline, "not within {within:?}: {actual:?} is not {expected:?}");
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that pauses between two looks at a condition")]
fn pause() {
    std::thread::sleep(PAUSE);
}

/// Lets time pass where time itself is the matter: how long a fault lasts, how fast a writer writes.
#[expect(clippy::disallowed_methods, reason = "nothing is waited for")]
pub(crate) fn let_pass(time: Duration) {
    std::thread::sleep(time);
}
