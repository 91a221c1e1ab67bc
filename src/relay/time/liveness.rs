//! Long waits that still show the service manager that the process lives.

use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::telemetry::Status;

/// Interval in which a wait shows that the process lives.
const TICK: Duration = Duration::from_secs(1);

/// Awaits the work, however long a server takes, and shows meanwhile that the process lives: a restart would
/// only begin the wait again. Nothing is shown while the task itself is not polled.
pub(in crate::relay) async fn alive<T>(status: &Status, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        status.tick_idle(Instant::now());
        tokio::select! {
            biased;
            outcome = &mut work => return outcome,
            () = sleep(TICK) => {}
        }
    }
}
