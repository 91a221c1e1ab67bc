//! Redis servers of the tests' own: one, a master with a replica and Sentinel, a cluster.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use outboxd::internals::throwaway::unused_port;
use redis::{Client, Connection, Value};

use crate::base::programs::spawn;
use crate::base::wait::{DEADLINE, eventually};
use crate::base::watcher::{self, Watcher, signal};

static SERVER: LazyLock<RedisServer> = LazyLock::new(|| RedisServer::start(&[]));

/// Returns the server that the tests of this process share. Its names begin with that of the test.
pub(crate) fn redis() -> &'static RedisServer {
    &SERVER
}

/// Redis from the machine: Debian's package `redis-server`. Killed when this value is dropped or the test process ends.
pub(crate) struct RedisServer {
    port: u16,
    process: Child,
    watcher: Watcher,
}

impl RedisServer {
    /// Starts a server with more settings than those of the tests.
    pub(crate) fn start(settings: &[&str]) -> Self {
        Self::launch(unused_port().unwrap(), settings, "", &[])
    }

    /// Watches a master.
    pub(crate) fn sentinel(of: u16) -> Self {
        let config = format!(
            "sentinel monitor shop 127.0.0.1 {of} 1\nsentinel down-after-milliseconds shop 300\n\
             sentinel failover-timeout shop 3000\n"
        );
        Self::launch(unused_port().unwrap(), &[], &config, &["--sentinel"])
    }

    fn launch(port: u16, settings: &[&str], config: &str, mode: &[&str]) -> Self {
        let mut watcher = Watcher::new("outboxd-redis-");
        let folder = watcher.folder().to_owned();
        let path = folder.join("redis.conf");
        let own = format!("bind 127.0.0.1\nport {port}\ndir {}\n", folder.display());
        fs::write(&path, own + config).unwrap();
        let log = File::create(folder.join("log")).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(&path).args(mode);
        if mode.is_empty() {
            command.args(["--save", "", "--appendonly", "no"]).args(settings);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let process = spawn(&mut command);
        watcher.watch(&process);
        let server = Self { port, process, watcher };
        eventually(DEADLINE, "Redis answers", || {
            let open = server.client().get_connection();
            open.is_ok_and(|mut open| redis::cmd("PING").query::<Value>(&mut open).is_ok())
        });
        server
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn client(&self) -> Client {
        Client::open(self.url()).unwrap()
    }

    pub(crate) fn connect(&self) -> Connection {
        self.client().get_connection().unwrap()
    }

    /// Runs a command, such as `SET a b`.
    #[track_caller]
    pub(crate) fn ask(&self, command: &str) -> Value {
        let mut words = command.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        for word in words {
            command.arg(word);
        }
        command.query(&mut self.connect()).unwrap()
    }

    /// Returns a page of `INFO`.
    pub(crate) fn info(&self, section: &str) -> String {
        redis::from_redis_value(self.ask(&format!("INFO {section}"))).unwrap()
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.watcher.release();
    }

    /// Sends SIGSTOP.
    pub(crate) fn pause(&mut self) {
        watcher::pause(&mut self.process);
    }

    /// Sends SIGCONT.
    pub(crate) fn resume(&mut self) {
        signal(&mut self.process, "CONT");
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if self.process.try_wait().is_ok_and(|left| left.is_none()) {
            self.kill();
        }
    }
}

/// Starts a cluster of three masters, which have a third of the slots each.
pub(crate) fn cluster() -> Vec<RedisServer> {
    let nodes: Vec<RedisServer> = (0..3)
        .map(|_| {
            let bus = unused_port().unwrap().to_string();
            RedisServer::start(&["--cluster-enabled", "yes", "--cluster-port", &bus])
        })
        .collect();
    let slots = ["0 5460", "5461 10922", "10923 16383"];
    for (node, slots) in nodes.iter().zip(slots) {
        node.ask(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
    }
    for node in nodes.iter().skip(1) {
        let first = &nodes[0];
        let Value::Array(bus) = first.ask("CONFIG GET cluster-port") else { panic!("no cluster-port") };
        let bus: u16 = redis::from_redis_value(bus[1].clone()).unwrap();
        node.ask(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", first.port()));
    }
    eventually(DEADLINE, "the cluster is complete", || {
        nodes.iter().all(|node| {
            let info: String = redis::from_redis_value(node.ask("CLUSTER INFO")).unwrap();
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        })
    });
    nodes
}
