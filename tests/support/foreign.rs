use outboxd::internals::postgres::{Connection, ReplicationStream, TlsSetup};
use pg_replication::replication::StartReplication;
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
            let options = db.address().options();
            let tls = TlsSetup::new(&options).unwrap();
            let connection = Connection::open(&options, &tls, application, 1 << 20).await.unwrap();
            let command =
                StartReplication { slot: db.name(), publication: db.name(), messages: false, more: &[] };
            ReplicationStream::start(connection, &command).await.unwrap()
        });
        Self { _stream: stream, _runtime: runtime }
    }
}
