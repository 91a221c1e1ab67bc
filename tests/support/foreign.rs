use std::time::Duration;

use outboxd::postgres::{Connection, ReplicationStream, ServerOptions, TlsOptions, TlsSetup};
use outboxd::replication::StartReplication;
use outboxd::secret::Secret;
use tokio::runtime::{Builder, Runtime};

use super::outbox::Outbox;

/// A program that is not outboxd and streams from the outbox's slot, until it is dropped.
pub(crate) struct ForeignConsumer {
    _stream: ReplicationStream,
    _runtime: Runtime,
}

impl ForeignConsumer {
    /// Occupies the slot, which must exist together with its publication.
    pub(crate) fn occupy(db: &Outbox, application: &str) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let stream = runtime.block_on(async {
            let options = server(db);
            let tls = TlsSetup::new(&options).unwrap();
            let connection = Connection::open(&options, &tls, application, 1 << 20).await.unwrap();
            let command =
                StartReplication { slot: db.name(), publication: db.name(), messages: false, more: &[] };
            ReplicationStream::start(connection, &command).await.unwrap()
        });
        Self { _stream: stream, _runtime: runtime }
    }
}

fn server(db: &Outbox) -> ServerOptions {
    let address = db.address();
    ServerOptions {
        host: address.host.clone(),
        port: address.port,
        user: address.user.clone(),
        password: address.password.clone().map(Secret::new),
        database: address.database.clone(),
        tls: TlsOptions::default(),
        tcp_keepalive: true,
        initial_statements: Vec::new(),
        query_timeout: Duration::from_secs(60),
        connect_timeout: Duration::from_secs(5),
    }
}
