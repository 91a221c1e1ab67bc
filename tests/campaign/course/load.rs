//! The writers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;

use crate::plan::draw::Draw;
use crate::plan::feature::Feature;
use crate::support::session::{Address, Session};
use crate::support::wait::let_pass;

const PAUSE_MAX_MS: u64 = 60;
/// Changes of an ordinary transaction, and of a large one.
const CHANGES_MAX: u32 = 12;
const CHANGES_OF_LARGE: u32 = 600;

/// Writes until `over`. A transaction that fails is not in the journal, whatever the reason; neither is one that is rolled back.
pub(crate) fn write(address: &Address, draw: &Draw, number: u64, over: &AtomicBool) {
    let mut rng = Rng::with_seed(draw.seed.wrapping_mul(1000) + number);
    let session = Session::new(address.clone());
    let large = if draw.has(Feature::TooLarge) { 0.004 } else { 0.0 };
    let unroutable = if draw.has(Feature::Unroutable) { 0.05 } else { 0.0 };
    while !over.load(Ordering::Relaxed) {
        let is_large = draw.has(Feature::LargeTransaction) && rng.u32(0..12) == 0;
        let count = if is_large { CHANGES_OF_LARGE } else { rng.u32(1..=CHANGES_MAX) };
        let act = transaction(count, large, unroutable, rng.f64());
        let cleaned = if rng.u32(0..8) == 0 {
            "DELETE FROM outbox WHERE xmin = pg_current_xact_id()::xid;"
        } else {
            ""
        };
        let end = if rng.u32(0..8) == 0 { "ROLLBACK" } else { "COMMIT" };
        if session.try_execute(&format!("BEGIN; {act} {cleaned} {end}")).is_err() {
            session.disconnect();
        }
        let_pass(Duration::from_millis(rng.u64(0..=PAUSE_MAX_MS)));
    }
}

/// Returns the statements of a transaction, without its beginning and end.
pub(crate) fn transaction(count: u32, large: f64, unroutable: f64, seed: f64) -> String {
    format!("SELECT setseed({seed}); SELECT act({count}, {large:.4}, {unroutable:.4});")
}
