//! Round trips to Redis, and what happens when its servers change.

use std::collections::BTreeMap;
use std::time::Duration;

use outboxd_inbox::idempotency::{
    Answer, BeginOutcome, ExtendOutcome, Fingerprint, FinishOutcome, Outcome, Records, RedisStore, Start,
    Store as _,
};
use outboxd_inbox::lease::{FenceError, Leases, check_fence};
use outboxd_inbox::redis::Servers;
use redis::ConnectionAddr;
use redis::cluster::ClusterClient;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};

use crate::base::wait::{DEADLINE, eventually};
use crate::leases::held;
use crate::support::postgres::Database;
use crate::support::redis::{RedisServer, cluster};
use crate::support::subject::{entry, key};

/// Returns the number of commands that came over a connection, by name; those of scripts are excluded.
pub(crate) fn round_trips(server: &RedisServer) -> BTreeMap<String, u64> {
    let info = server.info("commandstats");
    let rows = info.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
    let counts = rows.map(|(name, rest)| (name.to_owned(), rest.split(',').next().unwrap().parse().unwrap()));
    counts
        .filter(|(name, _): &(String, u64)| ["eval", "evalsha", "get", "set"].contains(&name.as_str()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_request_costs_two_round_trips_and_a_repeat_one() {
    let server = RedisServer::start(&[]);
    let records = Records::new(RedisStore::new(Servers::one(server.client())), "count");
    let done = Outcome::Completed(Answer::new(200, "text/plain", "ok"));
    let begin = async |name| records.begin(name, Fingerprint::none()).await.unwrap();
    // The scripts are known to the server from here on.
    let Start::Run(first) = begin("first").await else { panic!("not begun") };
    first.finish(&done).await.unwrap();

    server.ask("CONFIG RESETSTAT");
    let Start::Run(new) = begin("new").await else { panic!("not begun") };
    new.finish(&done).await.unwrap();
    assert_eq!(round_trips(&server), [("evalsha".to_owned(), 2)].into());

    server.ask("CONFIG RESETSTAT");
    assert!(matches!(begin("new").await, Start::Completed(_)));
    assert_eq!(round_trips(&server), [("evalsha".to_owned(), 1)].into());

    // A server that has forgotten the scripts is given them once.
    server.ask("SCRIPT FLUSH");
    server.ask("CONFIG RESETSTAT");
    assert!(matches!(begin("new").await, Start::Completed(_)));
    assert!(matches!(begin("new").await, Start::Completed(_)));
    assert_eq!(round_trips(&server), [("eval".to_owned(), 1), ("evalsha".to_owned(), 2)].into());
}

/// A master, its replica, and the one that watches them.
struct Watched {
    master: RedisServer,
    replica: RedisServer,
    sentinel: RedisServer,
}

impl Watched {
    fn start() -> Self {
        let master = RedisServer::start(&[]);
        let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
        let sentinel = RedisServer::sentinel(master.port());
        eventually(DEADLINE, "the replica is known", || {
            replica.info("replication").contains("master_link_status:up")
                && sentinel.info("sentinel").contains("slaves=1")
        });
        Self { master, replica, sentinel }
    }

    fn store(&self) -> RedisStore {
        let address = ConnectionAddr::Tcp("127.0.0.1".to_owned(), self.sentinel.port());
        let client = SentinelClientBuilder::new([address], "shop", SentinelServerType::Master).unwrap();
        RedisStore::new(Servers::sentinel(client.build().unwrap()))
    }
}

/// Repeats the request until Redis answers again.
async fn when_it_is_back<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let answer = async {
        loop {
            match ask().await {
                Some(answer) => return answer,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(DEADLINE, answer).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinel_names_another_master_and_records_continue() {
    let mut servers = tokio::task::block_in_place(Watched::start);
    let store = servers.store();
    let BeginOutcome::Run(claim) = store.begin(&key("moved"), &entry(1, 1)).await.unwrap() else {
        panic!("not begun")
    };
    let replicated = || servers.replica.ask("EXISTS idempotency:4:keys:moved") == redis::Value::Int(1);
    eventually(DEADLINE, "the replica has the record", replicated);
    servers.master.kill();

    let ending = Outcome::Completed(Answer::new(200, "text/plain", "ok"));
    let ended = when_it_is_back(async || store.finish(&claim, &ending, DEADLINE).await.ok()).await;
    assert_eq!(ended, FinishOutcome::Written);
    assert!(servers.replica.info("replication").contains("role:master"));
    assert!(matches!(store.begin(&key("moved"), &entry(2, 1)).await.unwrap(), BeginOutcome::Completed(_)));
}

/// Redis copies after it has answered: the new master does not know who has the lease, and gives it again. The row in
/// PostgreSQL lets only the second one through.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_a_failover_gives_twice_is_fenced_in_postgres() {
    let mut database = Database::create().await;
    database.store().await;
    let mut servers = tokio::task::block_in_place(Watched::start);
    let leases = Leases::new(servers.store(), "failover");
    // What is written from here on does not reach the replica.
    servers.replica.pause();
    servers.master.ask("CLIENT KILL TYPE replica");
    let first = held(leases.try_acquire("report").await.unwrap());
    servers.master.kill();
    servers.replica.resume();
    let second = when_it_is_back(async || leases.try_acquire("report").await.ok()).await;
    let second = held(second);
    assert!(second.fence() > first.fence());

    let client = database.connect().await;
    check_fence(&client, "reports", second.fence()).await.unwrap();
    let refused = check_fence(&client, "reports", first.fence()).await;
    assert!(matches!(refused, Err(FenceError::Fenced { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_keeps_records_on_all_its_nodes() {
    let nodes = tokio::task::block_in_place(cluster);
    let client = ClusterClient::new(nodes.iter().map(RedisServer::url)).unwrap();
    let store = RedisStore::new(Servers::cluster(client));
    let ending = Outcome::Completed(Answer::new(200, "text/plain", "ok"));
    for number in 0..60 {
        // Braces are a part of the key here and not a hash tag's.
        let key = key(&format!("}}{{{number}}}"));
        let BeginOutcome::Run(claim) = store.begin(&key, &entry(1, 1)).await.unwrap() else {
            panic!("not begun")
        };
        assert_eq!(store.extend(&claim, DEADLINE).await.unwrap(), ExtendOutcome::Extended);
        assert_eq!(store.finish(&claim, &ending, DEADLINE).await.unwrap(), FinishOutcome::Written);
        assert!(matches!(store.begin(&key, &entry(2, 1)).await.unwrap(), BeginOutcome::Completed(_)));
    }
    for node in &nodes {
        assert!(matches!(node.ask("DBSIZE"), redis::Value::Int(1..60)));
    }
}
