use std::sync::atomic::{AtomicU32, Ordering};

use outboxd::internals::throwaway::ThrowawayPostgres;
use outboxd_inbox::idempotency::PostgresStore;
use outboxd_inbox::postgres::Connector;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use crate::base::postgres::postgres18;

/// A database of one test.
pub(crate) struct Database {
    url: String,
    // The connections of this value's clients.
    connections: JoinSet<()>,
}

impl Database {
    pub(crate) async fn create() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("keys_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut maintenance = Self::at(server().url("postgres"));
        maintenance.connect().await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        Self::at(server().url(&name))
    }

    fn at(url: String) -> Self {
        Self { url, connections: JoinSet::new() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn connect(&mut self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        self.connections.spawn(async move { drop(connection.await) });
        client
    }

    /// Returns a store with its tables.
    pub(crate) async fn store(&self) -> PostgresStore {
        let store = PostgresStore::new(Connector::new(self.url.parse().unwrap(), NoTls));
        store.create_tables().await.unwrap();
        store
    }
}

fn server() -> &'static ThrowawayPostgres {
    tokio::task::block_in_place(postgres18)
}
