//! A run: a seed decides what is committed, what breaks and in which order everything happens.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::bug::{Bug, Shows};
use super::kafka::broker::Cluster;
use super::kafka::coordinator::Coordinator;
use super::kafka::pipe::Kafka;
use super::kafka::positions::{PositionTopic, Rights};
use super::oracle::truth::Truth;
use super::postgres::ddl::{DDL, Ddl};
use super::postgres::server::Server;
use super::postgres::slot::MEDDLING;
use super::process::Process;
use super::world::{Bench, World};
use crate::relay::lifecycle::control::Target;
use crate::relay::options::Guarantee;

/// Number of rounds in which everything must be delivered and confirmed once nothing breaks any more.
const ROUNDS_MAX: usize = 3_000;

/// Counts of a run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) events: usize,
    pub(super) repeats: usize,
    pub(super) faults: usize,
    pub(super) processes: usize,
    /// Number of commands to pause or to begin another session.
    pub(super) told: usize,
    /// Number of times that another client wanted to change the slot.
    pub(super) meddled: usize,
}

/// Faults.
const FAULTS: [Fault; 16] = [
    Fault::Cut,
    Fault::CrashRelay,
    Fault::FreezeRelay,
    Fault::StopRelay,
    Fault::CrashServer,
    Fault::FailOver,
    Fault::GoBack,
    Fault::TakeLeader,
    Fault::ForgetProducers,
    Fault::SequenceAgain,
    Fault::RefuseRecord,
    Fault::ReorderColumns,
    Fault::Alter,
    Fault::DropPublication,
    Fault::ForgetTopics,
    Fault::Persist,
];

/// Additional fault where the ends of topics are read.
const TAIL_FAULTS: [Fault; 1] = [Fault::AddPartition];

#[derive(Debug, Clone, Copy)]
enum Fault {
    Cut,
    CrashRelay,
    FreezeRelay,
    StopRelay,
    CrashServer,
    FailOver,
    GoBack,
    TakeLeader,
    ForgetProducers,
    SequenceAgain,
    RefuseRecord,
    ReorderColumns,
    /// Tables are renamed, moved, dropped, made or altered.
    Alter,
    DropPublication,
    ForgetTopics,
    AddPartition,
    /// No fault: the slot is stored.
    Persist,
}

/// Additional state of a run in which positions are stored.
struct Keeper {
    rng: Rng,
    /// True if another client moves the slot, drops it or recreates it.
    meddles: bool,
    /// True if it does so as soon as no relay has the slot.
    wants_to: bool,
    /// Takes the right to write positions away, and gives it back.
    revoker: Option<Rng>,
}

struct Run<'p> {
    world: World<'p>,
    processes: Vec<Process<'p>>,
    started: usize,
    faults: Vec<Fault>,
    /// Alterations.
    alterations: Vec<Ddl>,
    /// Operator who pauses and restarts the relays, in every other run.
    operator: Option<Rng>,
    /// State for positions, in two of four runs; in the others none are stored.
    keeper: Option<Keeper>,
    tally: Tally,
}

/// Runs a seed.
///
/// # Errors
/// With the first violation of an oracle.
pub(super) fn run(bench: &Bench, seed: u64, bug: Option<Bug>) -> Result<Tally, String> {
    let mut run = Run::new(bench, seed, bug);
    run.world.kafka.borrow_mut().truth.tells = bench.tells;
    for _ in 0..run.world.rng.usize(40..160) {
        run.step();
        run.verdict()?;
    }
    run.heal();
    run.world.kafka.borrow().truth.report(|| "nothing breaks any more".to_owned());
    for _ in 0..ROUNDS_MAX {
        if run.is_done() {
            return run.finish();
        }
        run.round();
        run.verdict()?;
    }
    let kafka = run.world.kafka.borrow();
    let (missing, confirmed) = (kafka.truth.missing(), run.world.server.confirmed);
    let processes: Vec<String> = run.processes.iter().map(Process::describe).collect();
    Err(format!("L7: event {missing:?} is missing, {confirmed} is confirmed, processes: {processes:?}"))
}

impl<'p> Run<'p> {
    fn new(bench: &'p Bench, seed: u64, bug: Option<Bug>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut cluster = Cluster::new([rng.i32(1..4), rng.i32(1..3)]);
        cluster.idempotent = bug != Some(Bug::NotIdempotent);
        // A topic that is being made: its leaders have no log yet.
        for topic in 0..2 {
            for partition in 0..cluster.counts[topic] {
                cluster.take_leader((topic, partition), rng.u32(0..3));
            }
        }
        let exactly_once = bench.options.guarantee == Guarantee::ExactlyOnce;
        if exactly_once {
            let fences = bug != Some(Bug::DoesNotFence);
            cluster.coordinator = Some(Coordinator::new(fences));
        }
        let mut truth = Truth::default();
        truth.exactly_once = exactly_once;
        truth.changes = bench.sends_changes();
        let server = Server::new(&mut rng, &mut truth);
        let shows = bug.and_then(Bug::shows);
        let keeps = match shows {
            Some(Shows::AfterCopies) => false,
            Some(Shows::AtTakeovers | Shows::AfterAlterations) => true,
            _ => seed / 2 % 2 == 1,
        };
        let mut keeper = keeps.then(|| Rng::with_seed(seed.rotate_left(32)));
        let rights = keeper.as_mut().map(|rng| match rng.u8(..) {
            0..16 => Rights::Nothing,
            16..32 => Rights::Reading,
            32.. => Rights::Everything,
        });
        truth.keeps_positions = rights == Some(Rights::Everything);
        let meddles = truth.keeps_positions && keeper.as_mut().is_some_and(Rng::bool);
        let revoker = Rng::with_seed(seed.rotate_left(16));
        let revoker = Some(revoker).filter(|_| truth.keeps_positions && seed / 4 % 4 == 1);
        let keeper = keeper.map(|rng| Keeper { rng, meddles, wants_to: false, revoker });
        let positions = rights.map(PositionTopic::new);
        let kafka = Kafka { cluster, clients: Vec::new(), truth, positions };
        // A few kinds of faults a run: with all of them at once little else would happen.
        let mut faults: Vec<_> = FAULTS.into_iter().filter(|_| rng.u8(..) < 80).collect();
        if bench.options.guarantee == Guarantee::TailDedupe {
            faults.extend(TAIL_FAULTS.into_iter().filter(|_| rng.u8(..) < 80));
        }
        let mut clients_break = rng.bool();
        match shows {
            Some(Shows::AtCommits) => (faults, clients_break) = (Vec::new(), true),
            Some(Shows::AfterCopies) => faults = vec![Fault::GoBack, Fault::CrashRelay],
            Some(Shows::AtTakeovers) => faults = vec![Fault::FreezeRelay, Fault::CrashRelay],
            Some(Shows::AfterAlterations) => faults = vec![Fault::Alter, Fault::CrashRelay],
            None => {}
        }
        let alterations = DDL.into_iter().filter(|_| rng.u8(..) < 80).collect();
        let began = Instant::now();
        let world = World {
            bench,
            bug,
            rng,
            now: began,
            began,
            server,
            kafka: Rc::new(RefCell::new(kafka)),
            offset: None,
            accept: None,
            clients_break,
        };
        let operator = (seed % 2 == 1).then(|| Rng::with_seed(!seed));
        let (processes, tally) = (Vec::new(), Tally::default());
        Self { world, processes, started: 0, faults, alterations, operator, keeper, tally }
    }

    fn step(&mut self) {
        self.pass_time();
        self.operate();
        self.meddle();
        self.revoke();
        match self.world.rng.u8(..) {
            0..50 => self.commit(),
            50..60 => self.world.server.wal.write_noise(&mut self.world.rng),
            60..76 => self.break_something(),
            _ => {}
        }
        let World { server, kafka, rng, clients_break, .. } = &mut self.world;
        if rng.bool() {
            server.act(rng, &mut kafka.borrow_mut().truth);
        }
        let frozen: Vec<usize> =
            self.processes.iter().filter(|process| process.frozen).flat_map(Process::clients).collect();
        for _ in 0..rng.usize(0..12) {
            kafka.borrow_mut().act(rng, &frozen, *clients_break);
        }
        let frozen = self.processes.iter().filter(|process| process.frozen).map(|process| process.number);
        kafka.borrow_mut().act_on_positions(rng, &frozen.collect::<Vec<_>>(), *clients_break);
        server.heed_position(&kafka.borrow().truth);
        self.processes.retain(|process| !process.has_ended());
        for process in &mut self.processes {
            if process.frozen {
                process.frozen = self.world.rng.u8(..) > 12;
            } else if self.world.rng.u8(..) < 160 {
                process.step(&mut self.world);
            }
        }
        if self.processes.iter().all(Process::is_away) && self.world.rng.bool() {
            self.start();
        }
    }

    /// Passes time, now and then more of it in runs with positions, which are written once a second.
    fn pass_time(&mut self) {
        let much = self.keeper.as_mut().is_some_and(|keeper| keeper.rng.u8(..) < 24);
        self.world.now += Duration::from_millis(if much { 600 } else { 10 });
    }

    /// Changes the slot as another client would, as soon as no relay has it.
    fn meddle(&mut self) {
        let Some(Keeper { rng, meddles: true, wants_to, .. }) = &mut self.keeper else { return };
        *wants_to |= rng.u8(..) < 4;
        let World { server, kafka, .. } = &mut self.world;
        let truth = &mut kafka.borrow_mut().truth;
        // A slot that was dropped before its first position is not missed.
        if !*wants_to || server.is_in_use() || truth.position.is_none() {
            return;
        }
        *wants_to = false;
        if let Some(meddling) = rng.choice(MEDDLING) {
            server.meddle(meddling, rng, truth);
            self.tally.meddled += 1;
        }
    }

    /// Revokes the right to write positions, or grants it again. A relay that does not know yet that there is
    /// a position continues without one, so it must know first.
    fn revoke(&mut self) {
        let Some(Keeper { revoker: Some(rng), .. }) = &mut self.keeper else { return };
        let Kafka { positions: Some(positions), truth, .. } = &mut *self.world.kafka.borrow_mut() else {
            return;
        };
        if rng.u8(..) >= 12 || truth.position.is_none() {
            return;
        }
        if !positions.is_writable() {
            positions.give_back();
        } else if self.processes.iter().all(Process::knows_position) {
            positions.revoke();
        }
        truth.report(|| format!("positions can be written: {}", positions.is_writable()));
    }

    fn commit(&mut self) {
        let World { server, kafka, rng, .. } = &mut self.world;
        for _ in 0..rng.usize(1..3) {
            server.wal.commit(rng, &mut kafka.borrow_mut().truth);
        }
    }

    fn start(&mut self) {
        self.started += 1;
        self.processes.push(Process::new(self.started, &self.world));
    }

    fn break_something(&mut self) {
        let Some(fault) = self.world.rng.choice(self.faults.clone()) else { return };
        self.tally.faults += 1;
        self.world.kafka.borrow().truth.report(|| format!("fault: {fault:?}"));
        match fault {
            Fault::CrashRelay | Fault::FreezeRelay | Fault::StopRelay | Fault::ForgetTopics => {
                self.break_relay(fault);
            }
            Fault::TakeLeader
            | Fault::ForgetProducers
            | Fault::SequenceAgain
            | Fault::RefuseRecord
            | Fault::AddPartition => self.break_kafka(fault),
            _ => self.break_server(fault),
        }
    }

    fn break_relay(&mut self, fault: Fault) {
        let which = self.world.rng.usize(..);
        let count = self.processes.len().max(1);
        let Some(process) = self.processes.get_mut(which % count) else { return };
        match fault {
            Fault::CrashRelay => process.crash(&mut self.world),
            Fault::StopRelay => process.control.set(Target::Stop),
            Fault::FreezeRelay => {
                process.frozen = true;
                // The server gives up on one that is silent.
                self.break_server(Fault::Cut);
            }
            _ => process.forget_topics(self.world.now),
        }
    }

    /// Commands a relay to pause or to begin another session; one that is paused is commanded to continue.
    fn operate(&mut self) {
        let Some(operator) = &mut self.operator else { return };
        let paused = self.processes.iter().filter(|process| process.is_paused());
        paused.filter(|_| operator.u8(..) < 12).for_each(|process| process.control.set(Target::Run));
        if operator.u8(..) < 6
            && let Some(process) = operator.choice(&self.processes)
        {
            let target = if operator.bool() { Target::Pause } else { Target::Restart };
            self.world.kafka.borrow().truth.report(|| format!("an operator says {target:?}"));
            process.control.set(target);
            self.tally.told += 1;
        }
    }

    fn break_kafka(&mut self, fault: Fault) {
        let World { kafka, rng, .. } = &mut self.world;
        let Kafka { cluster, clients, truth, .. } = &mut *kafka.borrow_mut();
        let topic = rng.usize(0..2);
        let place = (topic, rng.i32(0..cluster.counts[topic]));
        match fault {
            Fault::AddPartition => cluster.add_partition(topic, truth),
            Fault::TakeLeader => cluster.take_leader(place, rng.u32(1..5)),
            Fault::ForgetProducers => {
                cluster.forget_producers(place, truth);
                cluster.take_leader(place, rng.u32(0..3));
            }
            Fault::SequenceAgain => {
                if let Some(client) = rng.choice(clients.iter_mut()) {
                    client.begin_sequence_again(rng, truth);
                }
            }
            _ => {
                let (from, to) = (truth.events.len().saturating_sub(3), truth.events.len() + 3);
                cluster.refused.insert(rng.usize(from..to));
            }
        }
    }

    fn break_server(&mut self, fault: Fault) {
        let World { server, kafka, rng, .. } = &mut self.world;
        let truth = &mut kafka.borrow_mut().truth;
        match fault {
            Fault::Cut => server.cut(rng, truth),
            Fault::CrashServer => server.crash(rng, truth),
            Fault::FailOver => server.fail_over(rng, truth),
            Fault::GoBack => server.go_back(rng, truth),
            Fault::ReorderColumns => server.wal.alter(Ddl::ReorderColumns, rng, truth),
            Fault::Alter => {
                if let Some(ddl) = rng.choice(self.alterations.iter().copied()) {
                    server.wal.alter(ddl, rng, truth);
                }
            }
            Fault::DropPublication => server.wal.set_published(!server.wal.published),
            _ => server.persist(),
        }
    }

    fn heal(&mut self) {
        self.world.server.wal.set_published(true);
        self.world.clients_break = false;
        if let Some(keeper) = &mut self.keeper {
            keeper.meddles = false;
            if keeper.revoker.take().is_some()
                && let Some(positions) = &mut self.world.kafka.borrow_mut().positions
            {
                positions.give_back();
            }
        }
        for process in &mut self.processes {
            process.frozen = false;
            process.control.set(Target::Run);
        }
    }

    /// Gives each participant a turn without faults. Refused records are accepted once a relay has ended over
    /// one.
    fn round(&mut self) {
        self.pass_time();
        let World { server, kafka, rng, .. } = &mut self.world;
        server.act(rng, &mut kafka.borrow_mut().truth);
        kafka.borrow_mut().act_fairly(rng);
        server.heed_position(&kafka.borrow().truth);
        for process in &mut self.processes {
            process.step(&mut self.world);
        }
        let before = self.processes.len();
        self.processes.retain(|process| !process.has_ended());
        if self.processes.len() < before {
            self.world.kafka.borrow_mut().cluster.heal();
        }
        if self.processes.is_empty() {
            self.start();
        }
    }

    fn is_done(&self) -> bool {
        self.world.server.is_done() && self.world.kafka.borrow().truth.missing().is_none()
    }

    fn verdict(&self) -> Result<(), String> {
        let kafka = self.world.kafka.borrow();
        kafka.truth.violation.clone().map_or(Ok(()), Err)
    }

    fn finish(mut self) -> Result<Tally, String> {
        let kafka = self.world.kafka.borrow();
        (self.tally.events, self.tally.repeats) = (kafka.truth.events.len(), kafka.truth.repeats);
        self.tally.processes = self.started;
        Ok(self.tally)
    }
}
