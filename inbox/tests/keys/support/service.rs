//! The example `http` as a process, and a client.

use std::env;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use clap::Parser as _;

use crate::base::wait::{DEADLINE, eventually_some};
use crate::base::watcher::Watcher;
use crate::http_app;

/// The arguments of the process that [`Service::start`] starts, one a line.
const ARGUMENTS: &str = "OUTBOXD_INBOX_TEST_HTTP";

/// Not a test of its own: the process of the example.
#[test]
fn process() {
    let Ok(arguments) = env::var(ARGUMENTS) else { return };
    let arguments = ["http"].into_iter().chain(arguments.lines());
    http_app::main(http_app::Arguments::parse_from(arguments));
}

/// Killed when this value is dropped or the test process ends.
pub(crate) struct Service {
    process: Child,
    watcher: Watcher,
    address: String,
}

/// Answer of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Without the time.
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Returns the first answer, of which this must be the replay.
    #[track_caller]
    pub(crate) fn replayed(mut self) -> Self {
        assert_eq!(self.header("idempotent-replayed"), Some("true"), "{self:?}");
        self.headers.retain(|line| line != "idempotent-replayed: true");
        self
    }
}

impl Service {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut watcher = Watcher::new("outboxd-inbox-http-");
        let path = watcher.folder().join("log");
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "support::service::process", "--nocapture"]);
        command.env(ARGUMENTS, [&["--listen", "127.0.0.1:0"], arguments].concat().join("\n"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&path).unwrap());
        let process = command.spawn().unwrap();
        watcher.watch(&process);
        let address = eventually_some(DEADLINE, "the service listens", || {
            let log = fs::read_to_string(&path).unwrap();
            let (_, rest) = log.split_once("listening address=")?;
            rest.split_once('\n').map(|(address, _)| address.to_owned())
        });
        Self { process, watcher, address }
    }

    /// Posts this. `None` when the service ends before it answers.
    pub(crate) fn try_post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Option<Reply> {
        let mut request = format!("POST {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!("content-length: {}\r\n\r\n{body}", body.len());
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(request.as_bytes()).ok()?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).ok()?;
        let (head, body) = reply.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
        let headers = lines.map(str::to_lowercase).filter(|line| !line.starts_with("date: ")).collect();
        Some(Reply { status, headers, body: body.to_owned() })
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, key: &str, body: &str) -> Reply {
        self.try_post(path, &[("idempotency-key", key)], body).expect("no answer")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the service said:\n{}",
                fs::read_to_string(self.watcher.folder().join("log")).unwrap()
            );
        }
        if self.process.try_wait().is_ok_and(|left| left.is_none()) {
            self.process.kill().unwrap();
            self.process.wait().unwrap();
            self.watcher.release();
        }
    }
}
