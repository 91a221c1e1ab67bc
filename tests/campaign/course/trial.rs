//! One run: start, load, operations under faults, healing, and the verdict.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::course::load;
use crate::course::operations::{carry_out, clean_up};
use crate::course::outcome::Outcome;
use crate::course::poller::Poller;
use crate::course::service::{Role, Service};
use crate::course::setup::Site;
use crate::course::world::World;
use crate::judgement::evidence::Moments;
use crate::plan::draw::Draw;
use crate::plan::feature::{Fault, Feature};
use crate::planted::Planted;
use crate::support::relay::Config;
use crate::support::wait::{DEADLINE, let_pass};

const WRITERS: u64 = 2;

/// The course of a run.
pub(crate) struct Trial<'t> {
    pub(crate) world: &'t mut World,
    pub(crate) site: Site,
    pub(crate) services: Vec<Service>,
    pub(super) moments: Moments,
    pub(super) began: Instant,
    pub(super) log: Vec<String>,
    pub(super) rng: Rng,
    pub(crate) planted: Option<Planted>,
    is_changed: bool,
    pub(super) complaints: Vec<String>,
    /// Result of `outboxd move verify`: true if it has found each row in Kafka once.
    pub(crate) moved: Option<bool>,
    /// It has the outbox that is migrated.
    pub(super) poller: Option<Poller>,
}

impl<'t> Trial<'t> {
    pub(crate) fn start(world: &'t mut World, draw: Draw, planted: Option<Planted>) -> Self {
        let began = Instant::now();
        let rng = Rng::with_seed(draw.seed ^ 0x5EED);
        let site = Site::create(world, draw);
        site.link.tamper(planted.and_then(Planted::tampering));
        let seed = rng.clone().f64();
        site.db.execute(&load::transaction(120, 0.0, 0.0, seed));
        if let Some(planted) = planted {
            planted.before_start(&site.db);
        }
        let config = site.config(world, false);
        let config = planted.map_or(config.clone(), |planted| planted.config(config));
        let mut services =
            vec![Service::start(Role::First, site.db.name().to_owned(), config, site.small.clone())];
        if site.draw.has(Feature::TwoServices) {
            services.push(Service::start(Role::Second, site.second(), site.second_config(world), Vec::new()));
        }
        let poller = site.draw.has(Feature::Migrated).then(|| {
            let (topic, bootstrap) = (site.polled_topic(), world.kafka.bootstrap());
            let sends_all = planted == Some(Planted::PollerSendsAll);
            Poller::start(site.db.address(), &bootstrap, &topic, site.mark(), sends_all)
        });
        Self {
            world,
            site,
            services,
            moments: Moments::default(),
            began,
            log: Vec::new(),
            rng,
            planted,
            is_changed: false,
            complaints: Vec::new(),
            moved: None,
            poller,
        }
    }

    pub(crate) fn run(mut self) -> Outcome {
        self.recover("the start");
        self.moments.streaming = self.now();
        let over = AtomicBool::new(false);
        let (address, draw) = (self.site.db.address().clone(), self.site.draw.clone());
        thread::scope(|scope| {
            let writer = |number| {
                let (address, draw, over) = (&address, &draw, &over);
                move || load::write(address, draw, number, over)
            };
            (0..WRITERS).for_each(|number| drop(scope.spawn(writer(number))));
            let _end = EndOfWriting(&over);
            self.steps();
            self.end_migration();
        });
        self.endings();
        if let Some(planted) = self.planted {
            planted.in_the_end(&mut self);
        }
        self.finish()
    }

    /// Runs each operation under the next fault. A change of the configuration counts as an operation.
    fn steps(&mut self) {
        let draw = self.site.draw.clone();
        let mut operations: Vec<Option<Feature>> =
            draw.features.iter().filter(|feature| feature.is_step()).map(|feature| Some(*feature)).collect();
        // `None` is the change of the configuration.
        if !draw.later.is_empty() {
            operations.insert(self.rng.usize(0..=operations.len()), None);
        }
        for number in 0..operations.len().max(draw.faults.len()) {
            self.pause(200..800);
            let fault = draw.faults.get(number).copied();
            let operation = operations.get(number).copied();
            self.note(&format!("{operation:?} under {fault:?}"));
            self.step(operation, fault);
            self.recover(&format!("{operation:?} under {fault:?}"));
            if operation == Some(None) {
                self.moments.grown = Some(self.now());
            }
        }
        self.pause(200..800);
    }

    fn step(&mut self, operation: Option<Option<Feature>>, fault: Option<Fault>) {
        if operation == Some(Some(Feature::Migrated)) {
            return self.migrate(fault);
        }
        let is_gap = operation.flatten().is_some_and(Feature::is_gap);
        if is_gap && self.planted != Some(Planted::GapUnreported) {
            self.wait_until_watched();
        }
        let loses_slot = operation.flatten() == Some(Feature::SlotDropped);
        if loses_slot {
            self.begin_slot_gap();
        }
        let is_change = operation == Some(None);
        // A second instance has the configuration of the first one.
        if is_change && matches!(fault, Some(Fault::TakenOver | Fault::Replaced)) {
            self.restart_changed();
            self.recover("the change of the configuration");
        }
        if let Some(fault) = fault {
            self.inflict(fault);
        }
        let mut command = None;
        match operation {
            Some(Some(Feature::CleanupCommand)) => command = Some(clean_up(&self.config())),
            Some(Some(Feature::Credentials)) => self.change_credentials(),
            Some(Some(feature)) if feature.is_gap() => self.make_gap(),
            Some(Some(Feature::SlotDropped)) => self.drop_slot(),
            Some(Some(Feature::PartitionsAdded)) => self.site.add_partitions(self.world),
            Some(Some(feature)) => {
                carry_out(feature, &self.site.db);
                self.moments.snapshot |= feature.is_signalled();
            }
            Some(None) if !self.is_changed && fault == Some(Fault::Killed) => self.change(),
            Some(None) if !self.is_changed => self.restart_changed(),
            _ => {}
        }
        self.pause(100..1200);
        if let Some(fault) = fault {
            self.heal(fault);
        }
        if is_gap {
            self.close_gap(fault);
        }
        if loses_slot {
            self.end_slot_gap();
        }
        if let Some((mut command, _folder)) = command {
            self.note(&format!("cleanup: exit {}", command.wait_for_exit(DEADLINE)));
        }
    }

    fn change(&mut self) {
        self.wait_until_free();
        self.is_changed = true;
        let config = self.site.config(self.world, true);
        self.services[0].configure(config);
    }

    /// Returns the current configuration of the first service.
    pub(crate) fn config(&self) -> Config {
        self.site.config(self.world, self.is_changed)
    }

    /// Changes the password. Sources have it a moment later, and some restarts read another source.
    fn change_credentials(&mut self) {
        let Some(credentials) = &mut self.site.credentials else { return };
        credentials.change(&self.site.db);
        if self.rng.bool() {
            credentials.end_sessions(&self.site.db);
        }
        let_pass(Duration::from_millis(self.rng.u64(0..600)));
        credentials.write();
        if self.rng.bool() {
            credentials.end_sessions(&self.site.db);
            return;
        }
        credentials.change_source();
        let is_running = self.services[0].relay().is_running() && self.services[0].given_up.is_none();
        if is_running {
            let code = self.services[0].stop();
            self.note(&format!("stopped for another source of the password: exit {code}"));
        }
        let config = self.config();
        self.services[0].configure(config);
        if is_running {
            self.services[0].start_again();
        }
    }

    fn restart_changed(&mut self) {
        let code = self.services[0].stop();
        self.note(&format!("stopped for another configuration: exit {code}"));
        self.change();
        self.services[0].start_again();
    }

    pub(super) fn pause(&mut self, range_ms: std::ops::Range<u64>) {
        let_pass(Duration::from_millis(self.rng.u64(range_ms)));
    }

    pub(crate) fn note(&mut self, what: &str) {
        self.log.push(format!("{:7.3} {what}", self.began.elapsed().as_secs_f64()));
    }

    fn now(&self) -> i64 {
        self.site.db.query("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint", &[])[0].get(0)
    }
}

/// Ends the writers, also when a step panics.
struct EndOfWriting<'o>(&'o AtomicBool);

impl Drop for EndOfWriting<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
