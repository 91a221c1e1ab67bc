//! The one place that waits for time, and what time it is.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[expect(clippy::disallowed_methods, reason = "a measurement looks at intervals")]
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Returns microseconds since 1970, of the machine that also runs the servers.
pub(crate) fn unix_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_micros()).unwrap()
}
