//! Settlement of dead letters: each is sent again, or discarded, together with the record of its state, in
//! one transaction.

mod prepare;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::time::timeout;

use super::Context;
use super::args::{DiscardArgs, FilterArgs, ReplayArgs};
use super::error::DlqError;
use super::index::{Index, Keep};
use super::letter::Letter;
use super::plan::{Group, Hold, Plan, Target, group};
use super::report::{Action, Report};
use super::state::{self, Outcome, Run, States};
use crate::cli::shell::time::now_ms;
use crate::connect::record::ProducerRecord;
use crate::error::Exit;
use crate::kafka::{Admin, DeadLetterStates, Ended, RecordReader, TransactionalSender};
use prepare::Prepared;

/// Most dead letters of one transaction.
const LETTERS_MAX: usize = 200;
const BYTES_MAX: usize = 8 << 20;

/// Most tries of a transaction that librdkafka gives up.
const TRIES: u32 = 5;

/// Most records of dead letters that are gone that a run removes.
const FORGOTTEN_MAX: usize = 10_000;

/// Timeout of one request to the brokers, and of the begin of the transactions.
const QUESTION: Duration = Duration::from_secs(10);
const TAKE_OVER: Duration = Duration::from_secs(60);

/// Runs `outboxd dlq replay`.
pub(super) fn replay(args: &ReplayArgs, context: &Context) -> Result<Exit, DlqError> {
    let source = &context.source;
    if args.to.as_ref().is_some_and(|to| *to == source.topic || *to == source.state_topic) {
        return Err(DlqError::ToItself(args.to.clone().unwrap_or_default()));
    }
    let (_, topics) = Admin::new(&source.options)?.cluster(QUESTION)?;
    let topics: HashMap<_, _> = topics.into_iter().map(|topic| (topic.name, topic.partitions)).collect();
    if let Some(to) = args.to.as_ref().filter(|to| !topics.contains_key(*to)) {
        return Err(DlqError::NoTopic(to.clone()));
    }
    let target = Target { to: args.to.as_deref(), max_replays: args.max_replays, topics: &topics };
    let settling =
        Settling { filter: &args.filter, target: Some(&target), rate: args.rate, json: args.audit.json };
    settling.run(context, args.execute)
}

/// Runs `outboxd dlq discard`.
pub(super) fn discard(args: &DiscardArgs, context: &Context) -> Result<Exit, DlqError> {
    let settling = Settling { filter: &args.filter, target: None, rate: None, json: args.audit.json };
    settling.run(context, args.yes)
}

/// Request to settle dead letters.
struct Settling<'a> {
    filter: &'a FilterArgs,
    /// Destination; none discards.
    target: Option<&'a Target<'a>>,
    rate: Option<u32>,
    json: bool,
}

impl Settling<'_> {
    fn run(&self, context: &Context, execute: bool) -> Result<Exit, DlqError> {
        let Context { source, stop, progress } = context;
        // An earlier run that settles dead letters can commit nothing more: what is read from now on is
        // final.
        let sender = execute.then(|| take_over(context)).transpose()?;
        let states = source.states(stop)?;
        let index = Index::read(source, self.filter, &states, Keep::Open, stop, progress)?;
        if context.is_interrupted() {
            return Ok(Exit::Interrupted);
        }
        let plan = match self.target {
            Some(target) => Plan::new(&index, target),
            None => Plan::to_discard(&index),
        };
        let action = if self.target.is_some() { Action::Replay } else { Action::Discard };
        let mut report = Report::new(action, execute);
        report.overtaking = plan.overtaking;
        report.held.extend(plan.held);
        let run = Run { id: uuid::Uuid::now_v7().to_string(), at_ms: now_ms() };
        let outcome = match sender {
            Some(sender) => {
                progress.begin("settling dead letters", u64::try_from(plan.order.len()).ok());
                let readers = [RecordReader::new(&source.options)?, RecordReader::new(&source.options)?];
                let (target, run, held) = (self.target, run.clone(), HashSet::new());
                let (index, report) = (&index, &mut report);
                let mut settlement =
                    Settlement { context, index, target, sender, run, readers, held, report };
                settlement.forget(&states).and_then(|()| settlement.settle(&plan.order, self.rate))
            }
            None => {
                let letters = plan.order.iter().filter_map(|number| index.letters.get(*number));
                letters.for_each(|letter| report.count(destination(self.target, &index, letter)));
                Ok(())
            }
        };
        self.report(context, &report, execute.then_some(&run));
        outcome.map(|()| report.exit())
    }

    fn report(&self, context: &Context, report: &Report, run: Option<&Run>) {
        let (topic, held) = (context.source.topic.as_str(), report.held.len());
        if let Some(Run { id, .. }) = run {
            let (letters, interrupted) = (report.total(), report.interrupted);
            let action = if report.action == Action::Replay { "replay" } else { "discard" };
            tracing::info!(run = id, action, topic, letters, held, interrupted, "settled dead letters");
        }
        context.print(&if self.json {
            report.object(topic, run.map(|run| run.id.as_str())).to_string() + "\n"
        } else {
            report.text(topic)
        });
    }
}

fn take_over(context: &Context) -> Result<TransactionalSender, DlqError> {
    let Context { source, stop, .. } = context;
    let id = format!("outboxd-dlq-{}", source.topic);
    let sender = TransactionalSender::begin(&source.options, id, TAKE_OVER, stop);
    sender.map_err(|error| DlqError::of_sending(error, &source.topic))
}

fn destination<'d>(target: Option<&'d Target<'_>>, index: &'d Index, letter: &Letter) -> &'d str {
    target.and_then(|target| target.of(index, letter)).map_or("", |(topic, _)| topic)
}

/// A run that changes something.
struct Settlement<'s> {
    context: &'s Context,
    index: &'s Index,
    target: Option<&'s Target<'s>>,
    sender: TransactionalSender,
    run: Run,
    /// Readers of dead letters, and of records that dead letters only name.
    readers: [RecordReader; 2],
    /// Keys of dead letters that were held back only now.
    held: HashSet<Group<'s>>,
    report: &'s mut Report,
}

/// A dead letter, and its replacement.
type Ready<'s> = (&'s Letter, Prepared);

/// A dead letter in the open transaction.
struct Written {
    letter: String,
    to: String,
    event_id: Option<String>,
}

impl<'s> Settlement<'s> {
    fn settle(&mut self, order: &[usize], rate: Option<u32>) -> Result<(), DlqError> {
        let began = Instant::now();
        // A quarter of a second's, so that the rate holds within a second too.
        let size = rate.map_or(LETTERS_MAX, |rate| usize::try_from(rate / 4).unwrap_or(LETTERS_MAX));
        let (mut rest, mut count) = (order, 0_u64);
        while !rest.is_empty() {
            let due = rate.map_or(began, |rate| began + Duration::from_secs(count) / rate);
            self.wait_until(due);
            if self.context.is_interrupted() {
                self.report.interrupted = true;
                return Ok(());
            }
            let (batch, _) = rest.split_at(size.clamp(1, LETTERS_MAX).min(rest.len()));
            let taken = self.settle_batch(batch)?.max(1);
            count = count.saturating_add(u64::try_from(taken).unwrap_or_default());
            rest = rest.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// Settles a batch, and returns how many of it are done, or held back.
    fn settle_batch(&mut self, batch: &[usize]) -> Result<usize, DlqError> {
        let (written, taken, ended) = self.send_batch(batch)?;
        match ended {
            Ended::Committed => {
                written.iter().for_each(|written| self.committed(written));
                (0..taken).for_each(|_| self.context.progress.step());
            }
            Ended::GivenUp => return Err(DlqError::GivenUp(TRIES)),
            // Of a batch, the brokers do not report which one it was.
            Ended::Refused(_) if taken > 1 => {
                for one in batch.iter().take(taken) {
                    self.settle_batch(std::slice::from_ref(one))?;
                }
            }
            Ended::Refused(reason) => {
                batch.iter().take(1).for_each(|number| self.hold(*number, Hold::Refused(reason.clone())));
                self.context.progress.step();
            }
        }
        Ok(taken)
    }

    /// Sends a batch in one transaction, tried again when it was given up. It is opened when everything is
    /// read: while it is open, it hides from consumers what is written behind it.
    fn send_batch(&mut self, batch: &[usize]) -> Result<(Vec<Written>, usize, Ended), DlqError> {
        let (prepared, taken) = self.prepare_batch(batch)?;
        let topic = self.context.source.topic.as_str();
        let failed = |error| DlqError::of_sending(error, topic);
        for _ in 0..TRIES {
            self.sender.open().map_err(failed)?;
            let written = prepared.iter().map(|(letter, prepared)| self.send(letter, prepared)).collect();
            match self.sender.commit().map_err(failed)? {
                Ended::GivenUp => {}
                ended => return Ok((written, taken, ended)),
            }
        }
        Ok((Vec::new(), 0, Ended::GivenUp))
    }

    /// Prepares the dead letters of a batch, and returns how many were read.
    fn prepare_batch(&mut self, batch: &[usize]) -> Result<(Vec<Ready<'s>>, usize), DlqError> {
        let (mut ready, mut taken, mut bytes) = (Vec::new(), 0_usize, 0_usize);
        for number in batch {
            if bytes >= BYTES_MAX {
                break;
            }
            taken = taken.saturating_add(1);
            let Some(letter) = self.index.letters.get(*number) else { continue };
            if group(self.index, letter).is_some_and(|group| self.held.contains(&group)) {
                self.hold(*number, Hold::Follows);
                continue;
            }
            match self.prepare(letter)? {
                Err(hold) => self.hold(*number, hold),
                Ok(prepared) => {
                    bytes = bytes.saturating_add(prepared.weight());
                    ready.push((letter, prepared));
                }
            }
        }
        Ok((ready, taken))
    }

    fn send(&self, letter: &Letter, prepared: &Prepared) -> Written {
        let outcome = match &prepared.record {
            Some(record) => {
                record.with(|record| self.sender.send(record));
                Outcome::Replayed { to: record.topic.clone() }
            }
            None => Outcome::Discarded,
        };
        let key = state::key(&self.context.source.topic, letter.partition, letter.offset);
        self.send_state(&key, Some(&outcome.value(letter.digest, &self.run)));
        let to = prepared.record.as_ref().map(|record| record.topic.clone()).unwrap_or_default();
        Written { letter: key, to, event_id: prepared.event_id.clone() }
    }

    fn send_state(&self, key: &str, value: Option<&str>) {
        self.sender.send(&ProducerRecord {
            topic: &self.context.source.state_topic,
            partition: Some(DeadLetterStates::PARTITION),
            timestamp_ms: self.run.at_ms,
            key: Some(key.as_bytes()),
            value: value.map(str::as_bytes),
            headers: &[],
            position: None,
        });
    }

    /// Removes the states of dead letters that are gone.
    fn forget(&self, states: &States) -> Result<(), DlqError> {
        let Context { source, .. } = self.context;
        let gone = states.outlived(&self.index.begins);
        if gone.is_empty() {
            return Ok(());
        }
        let failed = |error| DlqError::of_sending(error, &source.topic);
        self.sender.open().map_err(failed)?;
        for (partition, offset) in gone.into_iter().take(FORGOTTEN_MAX) {
            self.send_state(&state::key(&source.topic, partition, offset), None);
        }
        self.sender.commit().map(drop).map_err(failed)
    }

    /// Logs the audit line.
    fn committed(&mut self, written: &Written) {
        let (run, Written { letter, to, event_id }) = (&self.run.id, written);
        let event_id = event_id.as_deref();
        if self.target.is_some() {
            tracing::info!(run, letter, to, event_id, "a dead letter was sent again");
        } else {
            tracing::info!(run, letter, event_id, "a dead letter was discarded");
        }
        self.report.count(to);
    }

    fn hold(&mut self, number: usize, hold: Hold) {
        let group = self.index.letters.get(number).and_then(|letter| group(self.index, letter));
        self.held.extend(group);
        self.report.held.insert(number, hold);
    }

    fn wait_until(&self, due: Instant) {
        let time = due.saturating_duration_since(Instant::now());
        if !time.is_zero() {
            drop(Handle::current().block_on(timeout(time, self.context.stop.cancelled())));
        }
    }
}
