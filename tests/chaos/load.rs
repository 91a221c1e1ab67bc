//! Load of the services meanwhile: transactions of every shape.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::shape::Shape;
use crate::support::session::{Address, Session};
use crate::support::wait::let_pass;

const KEY_COUNT: i32 = 500;
/// A column comes or goes this often, and what is older than a second goes from the outbox.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(2);

/// Amount of data that is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) writers: u64,
    /// The longest pause between two transactions of a writer.
    pub(crate) pause_max_ms: u64,
    /// Out of a thousand transactions, how many have 5,000 rows.
    pub(crate) large_per_mille: u64,
    /// Out of a hundred transactions, how many have rows without a route only.
    pub(crate) letters_percent: u32,
}

/// One of the writers.
#[derive(Debug)]
pub(crate) struct Writer<'w> {
    pub(crate) load: Load,
    pub(crate) shape: Shape,
    pub(crate) number: u64,
    pub(crate) address: &'w Address,
    /// Folder in which the server can read and write a file for COPY.
    pub(crate) folder: PathBuf,
    pub(crate) seed: u64,
    pub(crate) over: &'w AtomicBool,
    pub(crate) attempts: &'w AtomicU64,
}

impl Writer<'_> {
    /// Writes until the load is over. A transaction that fails because the server is away is simply not committed.
    pub(crate) fn write(self) {
        let mut rng = Rng::with_seed(self.seed.wrapping_mul(1000) + self.number);
        let session = Session::new(self.address.clone());
        while !self.over.load(Ordering::Relaxed) {
            let sql = self.transaction(&mut rng);
            self.attempts.fetch_add(1, Ordering::Relaxed);
            if session.try_execute(&sql).is_err() {
                session.disconnect();
            }
            let_pass(Duration::from_millis(rng.u64(0..=self.load.pause_max_ms)));
        }
    }

    fn transaction(&self, rng: &mut Rng) -> String {
        let mut keys: Vec<i32> = (0..rng.usize(1..=5)).map(|_| rng.i32(0..KEY_COUNT)).collect();
        keys.sort_unstable();
        let keys = format!("{keys:?}");
        let count = self.row_count(rng);
        let emit = self.shape.happen(count, &keys);
        let work = match rng.u32(0..100) {
            _ if self.shape == Shape::Outbox && rng.u32(0..100) < self.load.letters_percent => {
                format!("SELECT emit({count}, ARRAY{keys}, 1);")
            }
            0..10 => {
                let lost = self.shape.happen(rng.u64(1..=10), &keys);
                format!("{emit} SAVEPOINT s; {lost} ROLLBACK TO s; {emit}")
            }
            _ if self.shape.is_of_tables() => emit,
            10..20 => format!("{emit} DELETE FROM outbox WHERE xmin = pg_current_xact_id()::xid;"),
            20..30 => {
                let file = self.folder.join(format!("chaos-{}.copy", self.number));
                format!("SELECT emit_copy({count}, ARRAY{keys}, '{}');", file.display())
            }
            30..35 => format!(
                "INSERT INTO noise (text) SELECT md5(i::text) FROM generate_series(1, 50) AS i; {emit}"
            ),
            _ => emit,
        };
        let end = if rng.u32(0..10) < 3 { "ROLLBACK" } else { "COMMIT" };
        let seed = rng.f64();
        format!(
            "BEGIN; SELECT setseed({seed});
             SELECT FROM counters WHERE key = ANY(ARRAY{keys}) ORDER BY key FOR UPDATE; {work} {end}"
        )
    }

    fn row_count(&self, rng: &mut Rng) -> u64 {
        if rng.u64(0..1000) < self.load.large_per_mille {
            return 5000;
        }
        let most = rng.u64(1..=50);
        rng.u64(1..=most)
    }
}

/// Changes the table, empties it, and fills another.
pub(crate) fn keep_house(address: &Address, shape: Shape, over: &AtomicBool) {
    let session = Session::new(address.clone());
    let mut rng = Rng::with_seed(0);
    let mut last = Instant::now();
    let mut number = 0_u32;
    while !over.load(Ordering::Relaxed) {
        let_pass(Duration::from_millis(50));
        if last.elapsed() < HOUSEKEEPING_INTERVAL {
            continue;
        }
        (last, number) = (Instant::now(), number + 1);
        let change = match number % 4 {
            1 => "ADD COLUMN IF NOT EXISTS extra text DEFAULT 'x'",
            3 => "DROP COLUMN IF EXISTS extra",
            2 => "ADD COLUMN IF NOT EXISTS another integer",
            _ => "DROP COLUMN IF EXISTS another",
        };
        let alter = format!("SET lock_timeout = '3s'; ALTER TABLE \"{}\" {change}", shape.altered(&mut rng));
        let clean = "DELETE FROM outbox WHERE stamp < extract(epoch FROM clock_timestamp()) * 1000 - 1000";
        let noise = "INSERT INTO noise (text) SELECT md5(i::text) FROM generate_series(1, 2000) AS i";
        for sql in [&alter, clean, noise] {
            if session.try_execute(sql).is_err() {
                session.disconnect();
            }
        }
    }
}
