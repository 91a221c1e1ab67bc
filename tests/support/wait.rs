use std::fmt::Debug;
use std::time::{Duration, Instant};

/// The pause between two polls of a condition: a twentieth of the elapsed time, within these bounds. Most polls query a server.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// Maximum duration of anything that is not itself about time. Generous, since two cores may run ten servers.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// Waits for `condition`; panics with `what` when it does not come true in time.
#[track_caller]
pub(crate) fn eventually(within: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    eventually_some(within, what, || condition().then_some(()));
}

/// Waits for a value; panics with `what` when there is none in time.
#[track_caller]
pub(crate) fn eventually_some<T>(within: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(began.elapsed() < within, "not within {within:?}: {what}");
        pause(began);
    }
}

/// Waits until two values are the same; panics with both when they still differ.
#[track_caller]
pub(crate) fn eventually_eq<T: PartialEq + Debug>(
    within: Duration,
    expected: &T,
    mut look: impl FnMut() -> T,
) {
    let began = Instant::now();
    loop {
        let actual = look();
        if actual == *expected {
            return;
        }
        assert!(began.elapsed() < within, "not within {within:?}: {actual:?} is not {expected:?}");
        pause(began);
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that pauses between two looks at a condition")]
fn pause(began: Instant) {
    std::thread::sleep((began.elapsed() / 20).clamp(PAUSE_MIN, PAUSE_MAX));
}

/// Lets time pass where time itself is the matter: how long a fault lasts, how fast a writer writes.
#[expect(clippy::disallowed_methods, reason = "nothing is waited for")]
pub(crate) fn let_pass(time: Duration) {
    std::thread::sleep(time);
}
