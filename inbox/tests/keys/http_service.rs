//! The example `http` over real HTTP, with PostgreSQL and Redis.

use std::thread;

use tokio_postgres::Client;

use crate::base::wait::{DEADLINE, eventually_some};
use crate::support::postgres::Database;
use crate::support::redis::redis;
use crate::support::service::{Reply, Service};

/// A service with a database of its own. Redis is shared: the database's name distinguishes the keys.
struct Shop {
    database: Database,
    client: Client,
    account: String,
}

impl Shop {
    async fn open() -> Self {
        let mut database = Database::create().await;
        let client = database.connect().await;
        let account = database.url().rsplit('/').next().unwrap().to_owned();
        Self { database, client, account }
    }

    fn start(&self) -> Service {
        let redis = redis().url();
        Service::start(&["--postgres", self.database.url(), "--redis", &redis, "--lease", "1s"])
    }

    #[track_caller]
    fn post(&self, service: &Service, path: &str, key: &str, body: &str) -> Option<Reply> {
        service.try_post(path, &[("idempotency-key", key), ("x-account", &self.account)], body)
    }

    async fn count(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    async fn paid(&self) -> i64 {
        self.count("SELECT count(*) FROM payments").await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_is_done_once_and_each_repeat_gets_its_answer() {
    let shop = Shop::open().await;
    let service = shop.start();
    for path in ["/payments", "/refunds"] {
        let ask = |key, body| shop.post(&service, path, key, body).expect("no answer");
        let body = r#"{"customer_id": 7, "amount": 3}"#;
        let first = ask("\"a-1\"", body);
        assert_eq!(first.status, 201, "{first:?}");
        assert_eq!(ask("\"a-1\"", body).replayed(), first);
        assert_eq!(ask("a-1", body).replayed(), first, "without quotation marks it is the same key");

        let other = ask("a-1", r#"{"customer_id": 7, "amount": 4}"#);
        assert_eq!((other.status, other.header("content-type")), (422, Some("application/problem+json")));
        assert!(other.body.contains("Use a new key for a new request."), "{other:?}");

        // A refusal is an answer like any other.
        let refused = r#"{"customer_id": 7, "amount": 3, "fail": "refuse"}"#;
        if path == "/payments" {
            assert_eq!(ask("a-2", refused).status, 402);
            assert_eq!(ask("a-2", refused), ask("a-2", refused));
        }
        // What was away may be there the next time.
        let once = r#"{"customer_id": 7, "amount": 3, "fail": "once"}"#;
        assert_eq!(ask("a-3", once).status, 503);
        assert_eq!(ask("a-3", once).status, 201);
    }
    assert_eq!(shop.paid().await, 2);
    assert_eq!(shop.count("SELECT sum(asked) FROM provider").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_key_gets_an_answer_with_the_fix() {
    let shop = Shop::open().await;
    let service = shop.start();
    let missing = service.try_post("/payments", &[], "{}").unwrap();
    assert_eq!((missing.status, missing.header("content-type")), (400, Some("application/problem+json")));
    assert!(missing.body.contains("Send a key of your own"), "{missing:?}");
    let malformed = service.post("/payments", "\"open", "{}");
    assert_eq!(malformed.status, 400);
    assert!(malformed.body.contains("urn:problem:idempotency:key-malformed"), "{malformed:?}");
    let long = " ".repeat((1 << 20) + 1);
    let long = service.post("/payments", "a-1", &long);
    assert_eq!(long.status, 413);
    assert!(long.body.contains("At most 1048576 bytes are taken."), "{long:?}");
    assert_eq!(shop.paid().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_of_callers_are_kept_apart() {
    let shop = Shop::open().await;
    let service = shop.start();
    let body = r#"{"customer_id": 7, "amount": 3}"#;
    let ask =
        |account| service.try_post("/payments", &[("idempotency-key", "a"), ("x-account", account)], body);
    let (ann, bob) = (ask("ann").unwrap(), ask("bob").unwrap());
    assert_eq!((ann.status, bob.status), (201, 201));
    assert_ne!(ann, bob);
    assert_eq!(ask("ann").unwrap().replayed(), ann);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_during_the_first_request_is_asked_to_retry() {
    let shop = Shop::open().await;
    let service = shop.start();
    let body = r#"{"customer_id": 7, "amount": 3, "fail": "slow"}"#;
    for path in ["/payments", "/refunds"] {
        let (first, others) = thread::scope(|scope| {
            let first = scope.spawn(|| shop.post(&service, path, "slow", body).unwrap());
            let mut others = Vec::new();
            while !first.is_finished() {
                others.push(shop.post(&service, path, "slow", body).unwrap());
            }
            (first.join().unwrap(), others)
        });
        // The request that was the first one of all.
        let busy = others.iter().find(|reply| reply.status == 409);
        let refused = if first.status == 409 { &first } else { busy.expect("nobody was refused") };
        assert_eq!(refused.header("retry-after"), Some("1"), "{refused:?}");
        assert_eq!(shop.post(&service, path, "slow", body).unwrap().status, 201);
    }
    assert_eq!(shop.paid().await, 1);
    assert_eq!(shop.count("SELECT sum(asked) FROM provider").await, 1);
}

/// The process ends between the effect and the answer. The first request after the lease repeats the work: in the
/// database nothing was done, and the provider recognizes the key.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_ends_in_the_middle_is_taken_over() {
    let shop = Shop::open().await;
    let body = r#"{"customer_id": 7, "amount": 3, "fail": "crash"}"#;
    for path in ["/payments", "/refunds"] {
        let first = shop.start();
        assert_eq!(shop.post(&first, path, "crash", body), None);
        let second = shop.start();
        let done = eventually_some(DEADLINE, "it is taken over", || {
            let reply = shop.post(&second, path, "crash", body).unwrap();
            assert!([201, 409].contains(&reply.status), "{reply:?}");
            (reply.status == 201).then_some(reply)
        });
        assert_eq!(shop.post(&second, path, "crash", body).unwrap().replayed(), done);
    }
    assert_eq!(shop.paid().await, 1);
    assert_eq!(shop.count("SELECT count(*) FROM provider").await, 1);
    assert_eq!(shop.count("SELECT sum(asked) FROM provider").await, 2);
}
