use std::time::Duration;

use outboxd_inbox::idempotency::{
    BeginOutcome, BeginRequest, Claim, ExtendOutcome, Fingerprint, FinishOutcome, Key, Outcome, Owner,
    PostgresStore, RedisStore, Store, StoreError,
};
use outboxd_inbox::redis::Servers;
use tokio_postgres::Client;

use super::dynamodb::OnDynamoDb;
use super::postgres::Database;
use super::redis::RedisServer;

/// A store whose clock a test can seem to turn.
pub(crate) trait Subject: Store {
    /// Acts as if the lease had ended.
    fn end_lease(&self, key: &Key) -> impl Future<Output = ()> + Send;
    /// Acts as if the record's time was over.
    fn expire(&self, key: &Key) -> impl Future<Output = ()> + Send;
}

pub(crate) fn key(name: &str) -> Key {
    Key::new("keys", name).unwrap()
}

/// Returns a request of this owner: others wait for an hour.
pub(crate) fn entry(owner: u128, request: u8) -> BeginRequest {
    BeginRequest {
        owner: Owner::from(owner),
        fingerprint: Fingerprint::of([&[request][..]]),
        lease: Duration::from_hours(1),
        keep: Duration::from_hours(1000),
    }
}

pub(crate) struct OnRedis {
    store: RedisStore,
    client: redis::Client,
}

impl OnRedis {
    pub(crate) fn new(server: &RedisServer) -> Self {
        Self { store: RedisStore::new(Servers::one(server.client())), client: server.client() }
    }

    async fn run(&self, script: &str, key: &Key) {
        let mut connection = self.client.get_multiplexed_async_connection().await.unwrap();
        let name = format!("idempotency:{}:{}:{}", key.scope().len(), key.scope(), key.name());
        let () = redis::cmd("EVAL").arg(script).arg(1).arg(name).query_async(&mut connection).await.unwrap();
    }
}

impl Subject for OnRedis {
    async fn end_lease(&self, key: &Key) {
        self.run(
            "if redis.call('HEXISTS', KEYS[1], 'x') == 1 then redis.call('HSET', KEYS[1], 'x', 0) end",
            key,
        )
        .await;
    }

    async fn expire(&self, key: &Key) {
        self.run("redis.call('DEL', KEYS[1])", key).await;
    }
}

pub(crate) struct OnPostgres {
    store: PostgresStore,
    client: Client,
    _database: Database,
}

impl OnPostgres {
    pub(crate) async fn create() -> Self {
        let mut database = Database::create().await;
        let (store, client) = (database.store().await, database.connect().await);
        Self { store, client, _database: database }
    }

    async fn set(&self, column: &str, key: &Key) {
        let sql = format!(
            "UPDATE idempotency_records SET {column} = clock_timestamp() - interval '1 second' \
             WHERE scope = $1 AND key = $2"
        );
        self.client.execute(&sql, &[&key.scope(), &key.name()]).await.unwrap();
    }
}

impl Subject for OnPostgres {
    async fn end_lease(&self, key: &Key) {
        self.set("lease_end", key).await;
    }

    async fn expire(&self, key: &Key) {
        self.set("expires_at", key).await;
    }
}

macro_rules! store_of {
    ($subject:ty) => {
        impl Store for $subject {
            async fn begin(&self, key: &Key, entry: &BeginRequest) -> Result<BeginOutcome, StoreError> {
                self.store.begin(key, entry).await
            }

            async fn extend(&self, claim: &Claim, lease: Duration) -> Result<ExtendOutcome, StoreError> {
                self.store.extend(claim, lease).await
            }

            async fn finish(
                &self,
                claim: &Claim,
                ending: &Outcome,
                keep: Duration,
            ) -> Result<FinishOutcome, StoreError> {
                self.store.finish(claim, ending, keep).await
            }
        }
    };
}

store_of!(OnDynamoDb);
store_of!(OnRedis);
store_of!(OnPostgres);
