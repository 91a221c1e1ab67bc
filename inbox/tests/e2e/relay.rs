//! The real relay, on a thread of this process.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use outboxd::internals::cli::relay_parts;
use outboxd::internals::config::Sources;
use outboxd::internals::relay::{Control, Error, Relay, Target};
use outboxd::internals::telemetry::{ConfigInfo, Limits, Metrics, Status};

use crate::shop::Shop;
use crate::support::kafka::kafka;

/// Stopped when it is dropped.
pub(crate) struct RelayThread {
    control: Control,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl RelayThread {
    /// Starts a relay for a shop's database, with more settings.
    pub(crate) fn start(shop: &Shop<'_>, more: &[(&str, &str)]) -> Self {
        let name = shop.name();
        let own = [
            ("connector.class", "io.debezium.connector.postgresql.PostgresConnector"),
            ("plugin.name", "pgoutput"),
            ("topic.prefix", name),
            ("slot.name", name),
            ("publication.name", name),
            ("transforms", "outbox"),
            ("transforms.outbox.type", "io.debezium.transforms.outbox.EventRouter"),
        ];
        Self::run(shop, &[], &own.iter().chain(more).copied().collect::<Vec<_>>())
    }

    /// Starts a relay from a connector's JSON, with other servers.
    pub(crate) fn start_from(shop: &Shop<'_>, file: &Path) -> Self {
        Self::run(shop, &[file], &[])
    }

    fn run(shop: &Shop<'_>, files: &[&Path], settings: &[(&str, &str)]) -> Self {
        let config: tokio_postgres::Config = shop.url().parse().unwrap();
        let [tokio_postgres::config::Host::Tcp(host)] = config.get_hosts() else { panic!("no host") };
        let (port, bootstrap) = (config.get_ports()[0].to_string(), kafka().bootstrap());
        let servers = [
            ("database.hostname", host.as_str()),
            ("database.port", &port),
            ("database.user", config.get_user().unwrap()),
            ("database.password", ""),
            ("database.dbname", shop.name()),
            ("bootstrap.servers", &bootstrap),
        ];
        let overrides = servers.iter().chain(settings).map(|(key, value)| format!("{key}={value}"));
        let files = files.iter().map(|file| file.to_path_buf()).collect();
        let sources = Sources { files, overrides: overrides.collect(), ..Sources::default() };
        let status = Status::new(Limits::default(), Instant::now());
        let metrics = Metrics::new(&ConfigInfo::default());
        let relay = Relay::new(Arc::new(relay_parts(&sources).unwrap()), status, metrics);
        let control = Control::default();
        let told = control.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(relay.run(&told))
        });
        Self { control, thread: Some(thread) }
    }

    /// Stops it, and waits until it has ended.
    pub(crate) fn stop(mut self) -> Result<(), Error> {
        self.control.set(Target::Stop);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for RelayThread {
    fn drop(&mut self) {
        self.control.set(Target::Stop);
        if let Some(thread) = self.thread.take() {
            // The test reports the failure.
            drop(thread.join());
        }
    }
}
