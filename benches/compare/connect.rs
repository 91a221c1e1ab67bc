//! A Connect worker with Debezium.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use outboxd::internals::throwaway::unused_port;

use crate::lab::Lab;
use crate::options::{Mode, Options};
use crate::support::http::{send, try_get};
use crate::support::relay::{Config, with};
use crate::support::wait::{eventually, eventually_some};
use crate::support::watcher::{Watcher, signal};

const STARTED_WITHIN: Duration = Duration::from_secs(180);
const HEAP: &str = "-Xmx2g";
const LOG4J2: &str = include_str!("../../tests/support/kafka-log4j2.xml");
/// Short pauses; the password is never requested.
const TUNED: [(&str, &str); 2] = [("database.password", "none"), ("poll.interval.ms", "10")];
/// For a backlog: larger batches and a larger queue than the defaults.
const TUNED_TO_DRAIN: [(&str, &str); 4] = [
    ("max.batch.size", "32768"),
    ("max.queue.size", "262144"),
    ("producer.override.linger.ms", "5"),
    ("producer.override.batch.size", "1000000"),
];
/// For latency: nothing waits for company.
const TUNED_FOR_LATENCY: [(&str, &str); 1] = [("producer.override.linger.ms", "0")];

/// A standalone worker. It ends with this value.
#[derive(Debug)]
pub(crate) struct Worker {
    process: Child,
    watcher: Watcher,
    port: u16,
    tuned: &'static [(&'static str, &'static str)],
}

impl Worker {
    pub(crate) fn start(options: &Options, lab: &Lab) -> Self {
        let home = absolute(options.connect.as_deref().expect("clap asks for it"));
        let plugins = absolute(options.debezium.as_deref().expect("clap asks for it"));
        let port = unused_port().unwrap();
        let mut watcher = Watcher::new("outboxd-connect-");
        let folder = watcher.folder().to_owned();
        fs::write(folder.join("log4j2.xml"), LOG4J2).unwrap();
        let properties = properties(&lab.kafka.bootstrap(), &folder, &plugins, port);
        fs::write(folder.join("worker.properties"), properties).unwrap();
        let log = File::create(folder.join("log")).unwrap();
        let mut command = Command::new("java");
        command
            .arg(HEAP)
            .arg("-Dlog4j2.configurationFile=log4j2.xml")
            .arg("-cp")
            .arg(format!("{home}/libs/*"));
        command.args(["org.apache.kafka.connect.cli.ConnectStandalone", "worker.properties"]);
        command.current_dir(&folder).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let process = command.spawn().unwrap_or_else(|error| panic!("cannot run java: {error}"));
        watcher.watch(&process);
        let tuned: &[_] = match options.mode() {
            Mode::Drain | Mode::Verify => &TUNED_TO_DRAIN,
            Mode::Latency { .. } | Mode::Soak { .. } => &TUNED_FOR_LATENCY,
        };
        let mut worker = Self { process, watcher, port, tuned };
        worker.wait_until_ready();
        worker
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the end of the worker's log: warnings and above.
    pub(crate) fn log(&self) -> String {
        let log = fs::read_to_string(self.watcher.folder().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    pub(crate) fn create(&self, name: &str, config: &Config) -> Result<(), String> {
        let mut config = with(with(config.clone(), &TUNED), self.tuned);
        config.extend([("name".to_owned(), name.into()), ("tasks.max".to_owned(), "1".into())]);
        config.remove("bootstrap.servers");
        self.ask("PUT", &format!("/connectors/{name}/config"), &serde_json::Value::from(config).to_string())
    }

    /// Stops a connector and forgets it.
    pub(crate) fn delete(&self, name: &str) -> Result<(), String> {
        self.ask("DELETE", &format!("/connectors/{name}"), "")
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<(), String> {
        let answer = send(self.port, method, path, body);
        if (200..300).contains(&answer.code) {
            return Ok(());
        }
        Err(format!("{method} {path}: {} {}", answer.code, answer.body))
    }

    fn wait_until_ready(&mut self) {
        eventually_some(STARTED_WITHIN, "the Connect worker answers", || {
            let left = self.process.try_wait().unwrap();
            assert!(left.is_none(), "the Connect worker has left, {left:?}: {}", self.log());
            try_get(self.port, "/connector-plugins").filter(|page| page.code == 200)
        });
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        signal(&mut self.process, "TERM");
        eventually(STARTED_WITHIN, "the Connect worker has left", || {
            self.process.try_wait().unwrap().is_some()
        });
        self.watcher.release();
    }
}

fn properties(bootstrap: &str, folder: &Path, plugins: &str, port: u16) -> String {
    let offsets = folder.join("offsets");
    format!(
        "bootstrap.servers={bootstrap}\n\
         key.converter=org.apache.kafka.connect.json.JsonConverter\n\
         value.converter=org.apache.kafka.connect.json.JsonConverter\n\
         offset.storage.file.filename={}\n\
         offset.flush.interval.ms=5000\n\
         plugin.path={plugins}\n\
         listeners=http://127.0.0.1:{port}\n",
        offsets.display()
    )
}

fn absolute(path: &Path) -> String {
    let path = fs::canonicalize(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path.display().to_string()
}
