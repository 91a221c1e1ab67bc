//! One campaign: load, faults, healing, and the verdict.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::faults::{Deck, Fault, Scene};
use crate::fleet::Fleet;
use crate::judge::{Evidence, Phase};
use crate::load::{Load, Writer, keep_house};
use crate::mode::Mode;
use crate::outcome::Outcome;
use crate::sabotage::Sabotage;
use crate::samples::{Sampler, Usage};
use crate::seen;
use crate::shape::Shape;
use crate::snapshots;
use crate::support::wait::let_pass;
use crate::truth::Truth;
use crate::world::{Site, World};

/// L7: within this time after healing everything that was committed before is confirmed, or more of it is than before. Beside other
/// work a recovery of a few seconds has taken half a minute: how fast the machine is must not decide.
const LIVENESS: Duration = Duration::from_secs(90);
/// After so long an operator looks whether Kafka has forgotten to end a transaction.
const SUSPECT: Duration = Duration::from_secs(15);
/// L8: what the relay may use, unoptimised.
const RSS_MAX_KIB: u64 = 128 * 1024;
const FILES_MAX: usize = 96;
/// L8: what the slot may hold back in the end.
const WAL_MAX_BYTES: i64 = 64 << 20;

/// Plan of a campaign: its faults, its load and its duration.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) shape: Shape,
    pub(crate) mode: Mode,
    pub(crate) seed: u64,
    pub(crate) lasts: Duration,
    pub(crate) mix: Vec<Fault>,
    /// Duration of a fault, in milliseconds.
    pub(crate) hold_ms: Range<u64>,
    pub(crate) load: Load,
    pub(crate) sabotage: Option<Sabotage>,
}

impl Plan {
    pub(crate) fn run(self, world: &mut World) -> Outcome {
        let mut rng = Rng::with_seed(self.seed);
        let window = *rng.choice(&self.mode.windows()).unwrap();
        let site = Site::create(world, self.shape, self.mode, window, self.sabotage);
        let (over, settled) = (AtomicBool::new(false), AtomicBool::new(false));
        let (attempts, pid) = (AtomicU64::new(0), Arc::new(AtomicU32::new(0)));
        let mut fleet = Fleet::start(site.config.clone(), Arc::clone(&pid));
        site.db.wait_until_streaming();
        let (address, folder) = (site.db.address().clone(), world.postgres.folder().join("data"));
        let truth = Truth::begin(&address);
        let sampler = Sampler {
            address: &address,
            slot: site.db.name(),
            places: &site.places,
            consumer: world.kafka.consumer(),
            pid: &pid,
        };
        let mut run = Run::new(world, &site, &mut fleet);
        let (truth, samples, usage) = thread::scope(|scope| {
            let truth = scope.spawn(|| truth.follow(&settled));
            let samples = scope.spawn(|| sampler.look(&settled));
            let mut writers = Vec::new();
            for number in 0..self.load.writers {
                let Self { seed, load, shape, .. } = self;
                let (address, folder) = (&address, folder.clone());
                let (over, attempts) = (&over, &attempts);
                let writer = Writer { load, shape, number, address, folder, seed, over, attempts };
                writers.push(scope.spawn(move || writer.write()));
            }
            writers.push(scope.spawn(|| keep_house(&address, self.shape, &over)));
            if self.shape == Shape::Signals {
                writers.push(scope.spawn(|| snapshots::ask(&address, self.seed, &over)));
            }
            run.faults(&self, window, &mut rng);
            over.store(true, Ordering::Relaxed);
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            run.settle();
            settled.store(true, Ordering::Relaxed);
            let (samples, usage) = samples.join().unwrap();
            (truth.join().unwrap(), samples, usage)
        });
        let Run { phases, log, faults, times, forgotten, mut complaints, .. } = run;
        complaints.extend(usage_complaint(usage));
        let mut seen = seen::read(&world.kafka, &format!("{}.", site.db.name()), self.shape);
        if self.shape == Shape::Signals {
            let reads = seen.iter().filter(|seen| snapshots::is_read(seen)).count();
            println!("{reads} rows were read for signals");
            complaints.extend(snapshots::judge(&truth, &seen, &snapshots::rows(&site.db, self.shape)));
            seen.retain(|seen| !snapshots::is_read(seen));
        }
        let evidence = Evidence { truth: &truth, seen: &seen, samples: &samples, phases: &phases };
        let mut verdict = evidence.judge();
        verdict.violations.append(&mut complaints);
        let transactions = attempts.load(Ordering::Relaxed);
        Outcome {
            plan: self,
            faults,
            log,
            verdict,
            transactions,
            times,
            forgotten,
            usage,
            samples: samples.len(),
        }
    }
}

/// The course of a campaign.
struct Run<'r> {
    world: &'r mut World,
    site: &'r Site,
    fleet: &'r mut Fleet,
    began: Instant,
    phases: Vec<Phase>,
    log: Vec<String>,
    faults: Vec<Fault>,
    times: Vec<(&'static str, Duration)>,
    complaints: Vec<String>,
    /// Number of times that an operator had to end a transaction.
    forgotten: usize,
}

impl<'r> Run<'r> {
    fn new(world: &'r mut World, site: &'r Site, fleet: &'r mut Fleet) -> Self {
        Self {
            world,
            site,
            fleet,
            began: Instant::now(),
            phases: Vec::new(),
            log: Vec::new(),
            faults: Vec::new(),
            times: Vec::new(),
            complaints: Vec::new(),
            forgotten: 0,
        }
    }

    fn faults(&mut self, plan: &Plan, window: u32, rng: &mut Rng) {
        self.note(&format!(
            "{:?}, {:?}, seed {}, {window} records in flight",
            plan.shape, plan.mode, plan.seed
        ));
        let mut deck = Deck::new(plan.mix.clone());
        while self.began.elapsed() < plan.lasts {
            self.begin_phase(plan.mode, &[]);
            let_pass(Duration::from_millis(rng.u64(200..1500)));
            let faults = deck.draw(rng);
            let hold = Duration::from_millis(rng.u64(plan.hold_ms.clone()));
            self.suffer(plan.mode, &faults, hold);
            if !self.recover(&name(&faults)) {
                return;
            }
        }
        self.begin_phase(plan.mode, &[]);
    }

    fn suffer(&mut self, mode: Mode, faults: &[Fault], hold: Duration) {
        self.note(&format!("{} for {hold:?}", name(faults)));
        self.begin_phase(mode, faults);
        let alone = faults.len() == 1;
        for fault in faults {
            self.scene().inflict(*fault, alone);
        }
        let_pass(hold);
        for fault in faults.iter().rev() {
            self.scene().heal(*fault);
        }
        self.faults.extend(faults);
    }

    /// Checks L7: returns whether everything before now is confirmed in time.
    fn recover(&mut self, after: &str) -> bool {
        let mut began = Instant::now();
        let target = self.site.db.current_wal_lsn();
        let (mut confirmed, mut moved) = (None, began);
        while moved.elapsed() < LIVENESS {
            self.fleet.look_after();
            let now = self.site.db.slot().and_then(|slot| slot.confirmed_flush_lsn);
            if now > confirmed {
                (confirmed, moved) = (now, Instant::now());
            }
            if confirmed >= Some(target) {
                self.times.push(("healed to caught up", began.elapsed()));
                self.complaints
                    .extend(self.fleet.left.drain(..).map(|left| format!("L7 after {after}: {left}")));
                return true;
            }
            if moved.elapsed() > SUSPECT && self.end_what_kafka_forgot() {
                (began, moved) = (Instant::now(), Instant::now());
            }
            let_pass(Duration::from_millis(20));
        }
        let slot = self.site.db.slot();
        self.complaints.push(format!(
            "L7 not confirmed to {target}, and no further for {LIVENESS:?}, after {after}: {slot:?}\n{}",
            self.fleet.said()
        ));
        false
    }

    /// Follows the guarantees for a transaction that Kafka has promised to end and left open. The rows whose markers
    /// Kafka did not forget are sent again. Returns false if no transaction is open.
    fn end_what_kafka_forgot(&mut self) -> bool {
        let state = format!("__outboxd-state.{}", self.site.db.name());
        let prefixes = [self.site.db.name(), &state];
        let kafka = &self.world.kafka;
        if self.site.mode != Mode::ExactlyOnce || prefixes.iter().all(|name| kafka.undecided_count(name) == 0)
        {
            return false;
        }
        self.fleet.kill();
        let ended: usize = prefixes.iter().map(|name| self.world.kafka.abort_open(name)).sum();
        self.forgotten += 1;
        self.note(&format!("Kafka forgot to end a transaction in {ended} partitions"));
        self.fleet.set("outboxd.exactly.once.state.topic", &format!("{state}.{}", self.forgotten));
        let begins = self.site.ends();
        let name = "what Kafka forgot".to_owned();
        self.phases.push(Phase { name, forbids_repeats: false, two_may_send: false, begins });
        self.fleet.replace();
        true
    }

    /// Checks the end, after the last write: everything must be there, and a stop is clean.
    fn settle(&mut self) {
        if !self.recover("the end of the load") {
            return;
        }
        self.release_wal();
        let code = self.fleet.stop();
        if code != 0 {
            self.complaints.push(format!("L7 the last stop: exit {code}: {}", self.fleet.said()));
        }
        self.fleet.listen_to_active();
        self.complaints.extend(self.fleet.told.drain(..).map(|line| format!("L9 in the log: {line}")));
        self.note("settled");
    }

    /// Checks L8: the server may remove confirmed WAL. It computes where a slot's WAL begins when it logs the running
    /// transactions, as a checkpoint does.
    fn release_wal(&mut self) {
        let sql = "SELECT (pg_current_wal_lsn() - restart_lsn)::bigint FROM pg_replication_slots
                   WHERE slot_name = $1";
        let began = Instant::now();
        loop {
            self.site.db.execute("CHECKPOINT");
            let held: i64 = self.site.db.query(sql, &[&self.site.db.name()])[0].get(0);
            if held <= WAL_MAX_BYTES {
                return;
            }
            if began.elapsed() > LIVENESS {
                return self.complaints.push(format!("L8 the slot holds back {held} bytes"));
            }
            let_pass(Duration::from_millis(200));
        }
    }

    fn begin_phase(&mut self, mode: Mode, faults: &[Fault]) {
        let begins = self.site.ends();
        let two_may_send = faults.contains(&Fault::RelayReplaced) || faults.contains(&Fault::RelayPaused);
        let forbids_repeats = !mode.may_repeat(faults);
        self.phases.push(Phase { name: name(faults), forbids_repeats, two_may_send, begins });
    }

    fn scene(&mut self) -> Scene<'_> {
        Scene {
            world: self.world,
            site: self.site,
            fleet: self.fleet,
            times: &mut self.times,
            complaints: &mut self.complaints,
        }
    }

    fn note(&mut self, what: &str) {
        let line = format!("{:8.3} {what}", self.began.elapsed().as_secs_f64());
        println!("{line}");
        self.log.push(line);
    }
}

fn name(faults: &[Fault]) -> String {
    if faults.is_empty() {
        return "nothing wrong".to_owned();
    }
    faults.iter().map(|fault| format!("{fault:?}")).collect::<Vec<_>>().join(" + ")
}

fn usage_complaint(usage: Usage) -> Option<String> {
    let modest = usage.rss_kib <= RSS_MAX_KIB && usage.files <= FILES_MAX;
    (!modest).then(|| format!("L8 the relay uses too much: {usage:?}"))
}
