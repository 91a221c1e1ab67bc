use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use outboxd::internals::cli::relay_parts;
use outboxd::internals::config::Sources;
use outboxd::internals::error::Exit;
use outboxd::internals::relay::{Control, Error, Relay, Target};
use outboxd::internals::telemetry::{ConfigInfo, Limits, Metrics, Phase, Status};
use tokio::runtime::Builder;

use super::relay::Config;
use super::wait::{DEADLINE, eventually};

/// Relay on a thread of the test's own process. Unlike a process, it can be controlled by more than signals. Stopped
/// when dropped.
#[derive(Debug)]
pub(crate) struct RelayInProcess {
    control: Control,
    status: Status,
    metrics: Metrics,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl RelayInProcess {
    pub(crate) fn start(config: &Config) -> Self {
        let overrides = config.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap()));
        let sources = Sources { overrides: overrides.collect(), ..Sources::default() };
        Self::start_from(&sources).unwrap()
    }

    /// Starts from a configuration in files or elsewhere.
    ///
    /// # Errors
    /// When the configuration cannot work.
    pub(crate) fn start_from(sources: &Sources) -> Result<Self, Exit> {
        let control = Control::default();
        let status = Status::new(Limits::default(), Instant::now());
        let metrics = Metrics::new(&ConfigInfo::default());
        let parts = relay_parts(sources)?;
        let relay = Relay::new(Arc::new(parts), status.clone(), metrics.clone());
        let told = control.clone();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(relay.run(&told))
        });
        Ok(Self { control, status, metrics, thread: Some(thread) })
    }

    /// Returns whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Sets the target of the relay.
    pub(crate) fn set(&self, target: Target) {
        self.control.set(target);
    }

    /// Waits until it is in this phase.
    #[track_caller]
    pub(crate) fn wait_for(&self, phase: &Phase) {
        eventually(DEADLINE, &format!("the relay is {phase}"), || self.status.snapshot().phase == *phase);
    }

    /// Pauses it, and waits until it is paused.
    #[track_caller]
    pub(crate) fn pause(&self) {
        self.set(Target::Pause);
        self.wait_for(&Phase::Paused);
    }

    /// Returns the metrics in text form.
    pub(crate) fn metrics(&self) -> String {
        self.metrics.observe(&self.status.snapshot(), std::time::SystemTime::now());
        self.metrics.encode().unwrap()
    }

    /// Waits until it has ended.
    pub(crate) fn join(mut self) -> Result<(), Error> {
        self.thread.take().unwrap().join().unwrap()
    }

    /// Stops it, and waits until it has ended.
    pub(crate) fn stop(self) -> Result<(), Error> {
        self.set(Target::Stop);
        self.join()
    }
}

impl Drop for RelayInProcess {
    fn drop(&mut self) {
        self.set(Target::Stop);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
