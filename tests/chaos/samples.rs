//! Samples during a campaign: the slot's confirmed position, the ends of the partitions, and the relay's resource
//! usage.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rdkafka::consumer::BaseConsumer;

use crate::support::kafka::Kafka;
use crate::support::session::{Address, Session};
use crate::support::wait::let_pass;
use crate::world::{Ends, Place};

const INTERVAL: Duration = Duration::from_millis(200);
const ANSWER_WITHIN: Duration = Duration::from_millis(300);

/// First the slot was asked, then the partitions: what is confirmed must be in them.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Since the first look.
    pub(crate) at: Duration,
    pub(crate) confirmed: u64,
    pub(crate) ends: Ends,
}

/// Maximum resource usage of the relay's process.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) rss_kib: u64,
    pub(crate) files: usize,
    pub(crate) threads: usize,
}

/// Looks at it.
pub(crate) struct Sampler<'s> {
    pub(crate) address: &'s Address,
    pub(crate) slot: &'s str,
    pub(crate) places: &'s [Place],
    pub(crate) consumer: BaseConsumer,
    pub(crate) pid: &'s AtomicU32,
}

impl Sampler<'_> {
    /// Looks until it is over.
    pub(crate) fn look(self, over: &AtomicBool) -> (Vec<Sample>, Usage) {
        let session = Session::new(self.address.clone());
        let began = Instant::now();
        let (mut samples, mut usage) = (Vec::new(), Usage::default());
        while !over.load(Ordering::Relaxed) {
            let_pass(INTERVAL);
            usage.add(self.pid.load(Ordering::Relaxed));
            let Some(confirmed) = self.confirmed(&session) else {
                session.disconnect();
                continue;
            };
            let ends = Kafka::try_ends(&self.consumer, self.places, ANSWER_WITHIN);
            samples.extend(ends.map(|ends| {
                let ends = self.places.iter().cloned().zip(ends).collect();
                Sample { at: began.elapsed(), confirmed, ends }
            }));
        }
        (samples, usage)
    }

    fn confirmed(&self, session: &Session) -> Option<u64> {
        let sql = format!(
            "SELECT (confirmed_flush_lsn - '0/0'::pg_lsn)::bigint FROM pg_replication_slots WHERE slot_name = '{}'",
            self.slot
        );
        let rows = session.try_query(&sql).ok()?;
        let lsn: Option<i64> = rows.first()?.get(0);
        u64::try_from(lsn?).ok()
    }
}

impl Usage {
    /// Adds the usage of a process. One that has just ended uses nothing.
    fn add(&mut self, pid: u32) {
        let count = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, Iterator::count);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        self.rss_kib = self.rss_kib.max(rss.and_then(|rss| rss.parse().ok()).unwrap_or(0));
        self.files = self.files.max(count("fd"));
        self.threads = self.threads.max(count("task"));
    }
}
