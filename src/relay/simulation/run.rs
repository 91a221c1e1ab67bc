//! A run: a seed decides what is committed, what breaks and in which order everything happens.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::broker::Cluster;
use super::bug::Bug;
use super::coordinator::Coordinator;
use super::ddl::{DDL, Ddl};
use super::pipe::Kafka;
use super::process::Process;
use super::server::Server;
use super::truth::Truth;
use super::world::{Bench, World};
use crate::relay::control::Target;
use crate::relay::options::Guarantee;

/// In how many rounds everything must be delivered and confirmed once nothing breaks any more.
const ROUNDS_MAX: usize = 3_000;

/// What a run saw.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) events: usize,
    pub(super) repeats: usize,
    pub(super) faults: usize,
    pub(super) processes: usize,
    /// How often a relay was told to pause or to begin another session.
    pub(super) told: usize,
}

/// What can break.
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

/// What can break besides where the ends of topics are read.
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

struct Run<'p> {
    world: World<'p>,
    processes: Vec<Process<'p>>,
    started: usize,
    faults: Vec<Fault>,
    /// What is altered.
    alterations: Vec<Ddl>,
    clients_break: bool,
    /// Who tells the relays to pause and to restart; in every other run nobody does.
    operator: Option<Rng>,
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
    run.world.kafka.borrow().truth.tell(|| "nothing breaks any more".to_owned());
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
        let server = Server::new(&mut rng, &mut truth);
        let kafka = Kafka { cluster, clients: Vec::new(), truth };
        // A few kinds of faults a run: with all of them at once little else would happen.
        let mut faults: Vec<_> = FAULTS.into_iter().filter(|_| rng.u8(..) < 80).collect();
        if bench.options.guarantee == Guarantee::TailDedupe {
            faults.extend(TAIL_FAULTS.into_iter().filter(|_| rng.u8(..) < 80));
        }
        let mut clients_break = rng.bool();
        if bug.is_some_and(Bug::is_of_commits) {
            (faults, clients_break) = (Vec::new(), true);
        }
        let alterations = DDL.into_iter().filter(|_| rng.u8(..) < 80).collect();
        let world = World {
            bench,
            bug,
            rng,
            now: Instant::now(),
            server,
            kafka: Rc::new(RefCell::new(kafka)),
            offset: None,
            kept: Vec::new(),
        };
        let operator = (seed % 2 == 1).then(|| Rng::with_seed(!seed));
        let (processes, tally) = (Vec::new(), Tally::default());
        Self { world, processes, started: 0, faults, alterations, clients_break, operator, tally }
    }

    fn step(&mut self) {
        self.world.now += Duration::from_millis(10);
        self.operate();
        match self.world.rng.u8(..) {
            0..50 => self.commit(),
            50..60 => self.world.server.wal.write_noise(&mut self.world.rng),
            60..76 => self.break_something(),
            _ => {}
        }
        let World { server, kafka, rng, .. } = &mut self.world;
        if rng.bool() {
            server.act(rng, &mut kafka.borrow_mut().truth);
        }
        let frozen: Vec<usize> =
            self.processes.iter().filter(|process| process.frozen).flat_map(Process::clients).collect();
        for _ in 0..rng.usize(0..12) {
            kafka.borrow_mut().act(rng, &frozen, self.clients_break);
        }
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
        self.world.kafka.borrow().truth.tell(|| format!("fault: {fault:?}"));
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

    /// A relay is told to pause or to begin another session; one that is paused is told to go on.
    fn operate(&mut self) {
        let Some(operator) = &mut self.operator else { return };
        let paused = self.processes.iter().filter(|process| process.is_paused());
        paused.filter(|_| operator.u8(..) < 12).for_each(|process| process.control.set(Target::Run));
        if operator.u8(..) < 6
            && let Some(process) = operator.choice(&self.processes)
        {
            let target = if operator.bool() { Target::Pause } else { Target::Restart };
            self.world.kafka.borrow().truth.tell(|| format!("an operator says {target:?}"));
            process.control.set(target);
            self.tally.told += 1;
        }
    }

    fn break_kafka(&mut self, fault: Fault) {
        let World { kafka, rng, .. } = &mut self.world;
        let Kafka { cluster, clients, truth } = &mut *kafka.borrow_mut();
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
        for process in &mut self.processes {
            process.frozen = false;
            process.control.set(Target::Run);
        }
    }

    /// Everybody has a turn, and nothing breaks. Records that are refused are let through once a relay has ended over one.
    fn round(&mut self) {
        self.world.now += Duration::from_millis(10);
        let World { server, kafka, rng, .. } = &mut self.world;
        server.act(rng, &mut kafka.borrow_mut().truth);
        kafka.borrow_mut().act_fairly(rng);
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
