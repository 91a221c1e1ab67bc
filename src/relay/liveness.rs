use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::telemetry::Status;

/// How often a wait shows that the process lives.
const TICK: Duration = Duration::from_secs(1);

/// Does this, however long a server takes, and shows meanwhile that the process lives: a restart would only begin the wait
/// anew. Nothing is shown while the task itself does not come on.
pub(super) async fn alive<T>(status: &Status, work: impl Future<Output = T>) -> T {
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
