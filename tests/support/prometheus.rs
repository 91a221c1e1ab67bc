use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use outboxd::internals::throwaway::unused_port;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::http::try_get;
use super::programs::spawn;
use super::wait::{eventually, eventually_some};
use super::watcher::Watcher;

/// Some alerts are about half a minute and more, which a test cannot shorten.
const ALERT_DEADLINE: Duration = Duration::from_secs(120);

/// A Prometheus that looks each second, killed when this value is dropped or the test process ends.
#[derive(Debug)]
pub(crate) struct Prometheus {
    process: Child,
    port: u16,
    watcher: Watcher,
}

impl Prometheus {
    /// Starts Prometheus with these rules, which wait for nothing (`for: 0s`), and with the status ports of relays as
    /// targets of the job `outboxd`.
    pub(crate) fn start(rules: &str, ports: &[u16]) -> Self {
        let mut watcher = Watcher::new("outboxd-prometheus-");
        let (folder, port) = (watcher.folder().to_owned(), unused_port().unwrap());
        let targets: Vec<_> = ports.iter().map(|port| format!("'{}'", instance(*port))).collect();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [alerts.yaml]\n\
             scrape_configs: [{{job_name: outboxd, static_configs: [{{targets: [{}]}}]}}]\n",
            targets.join(", ")
        );
        fs::write(folder.join("prometheus.yaml"), config).unwrap();
        fs::write(folder.join("alerts.yaml"), without_patience(rules)).unwrap();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", folder.join("prometheus.yaml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("log")).unwrap());
        let process = spawn(&mut command);
        watcher.watch(&process);
        let started = Self { process, port, watcher };
        eventually(ALERT_DEADLINE, "Prometheus is ready", || {
            try_get(port, "/-/ready").is_some_and(|page| page.code == 200)
        });
        started
    }

    /// Evaluates this expression now and returns its vector of series.
    #[track_caller]
    pub(crate) fn query(&self, expression: &str) -> Vec<Value> {
        let path = format!("/api/v1/query?query={}", utf8_percent_encode(expression, NON_ALPHANUMERIC));
        let page = try_get(self.port, &path).unwrap_or_else(|| panic!("{}", self.log()));
        let answer = page.json();
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }

    /// Waits until this expression has a result.
    #[track_caller]
    pub(crate) fn wait_for(&self, expression: &str) -> Vec<Value> {
        eventually_some(ALERT_DEADLINE, expression, || {
            Some(self.query(expression)).filter(|found| !found.is_empty())
        })
    }

    /// Waits until this alert fires, for the relay with this status port when the alert is about one.
    #[track_caller]
    pub(crate) fn wait_for_alert(&self, name: &str, port: u16) {
        let at = instance(port);
        let alert = format!(r#"ALERTS{{alertname="{name}", alertstate="firing", instance=~"|{at}"}}"#);
        self.wait_for(&alert);
    }

    fn log(&self) -> String {
        fs::read_to_string(self.watcher.folder().join("log")).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.watcher.release();
    }
}

fn instance(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// Returns the rules without the time for which a condition must last.
fn without_patience(rules: &str) -> String {
    let line = |line: &str| {
        if line.trim_start().starts_with("for: ") { String::new() } else { format!("{line}\n") }
    };
    rules.lines().map(line).collect()
}
