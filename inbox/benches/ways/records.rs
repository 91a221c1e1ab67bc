//! Cost of idempotency records: the round trips to Redis, and the time added to a handler.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::Request;
use outboxd_inbox::http::IdempotencyLayer;
use outboxd_inbox::idempotency::{
    Answer, Fingerprint, Outcome, PostgresStore, Records, RedisStore, Start, Store, WorkError,
};
use outboxd_inbox::redis::Servers;
use redis::aio::MultiplexedConnection;
use tower_service::Service as _;

use crate::lab::Lab;
use crate::redis_server::RedisServer;
use crate::{ROUNDS, SLOW, SLOWER, median};

/// Requests of a measurement on Redis.
const REQUESTS: u32 = 2000;
/// The usual way to give back a lock.
const UNLOCK: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

pub(crate) fn measure(lab: &Lab) {
    let server = RedisServer::start(&[]);
    lab.runtime.block_on(async {
        round_trips(&server).await;
        let on_redis = RedisStore::new(Servers::one(server.client()));
        let on_postgres = PostgresStore::new(lab.connector());
        on_postgres.create_tables().await.unwrap();
        let (on_redis, on_postgres) = (Records::new(on_redis, "bench"), Records::new(on_postgres, "bench"));
        for (handler, count) in [(SLOW, 200), (SLOWER, 10)] {
            let alone = time(count, || tokio::time::sleep(handler)).await;
            let report = |name: &str, took: f64| {
                let what = format!("a handler of {handler:?}, {name}");
                println!("{what:45} {:9.2} ms more a request", took - alone);
            };
            report("records on Redis", time(count, || once(&on_redis, handler)).await);
            report("records on PostgreSQL", time(count, || once(&on_postgres, handler)).await);
            let bare = requests(count, router(handler)).await;
            let layer = |name: &str, took: f64| report(name, took - bare + alone);
            layer("HTTP on Redis", requests(count, with_layer(&on_redis, handler)).await);
            layer("HTTP on PostgreSQL", requests(count, with_layer(&on_postgres, handler)).await);
        }
    });
}

/// Measures new requests and repeats in a second, beside the usual code with two locks.
async fn round_trips(server: &RedisServer) {
    let mut old = server.client().get_multiplexed_async_connection().await.unwrap();
    let records = Records::new(RedisStore::new(Servers::one(server.client())), "trips");
    let done = Outcome::Completed(Answer::new(200, "text/plain", "ok"));
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let mut rates = [0.0; 4];
        for rate in &mut rates[..2] {
            let began = Instant::now();
            for n in 0..REQUESTS {
                by_hand(&mut old, &format!("hand-{round}-{n}")).await;
            }
            *rate = f64::from(REQUESTS) / began.elapsed().as_secs_f64();
        }
        for rate in &mut rates[2..] {
            let began = Instant::now();
            for n in 0..REQUESTS {
                let key = format!("{round}-{n}");
                if let Start::Run(attempt) = records.begin(&key, Fingerprint::none()).await.unwrap() {
                    attempt.finish(&done).await.unwrap();
                }
            }
            *rate = f64::from(REQUESTS) / began.elapsed().as_secs_f64();
        }
        rounds.push(rates);
    }
    let names = [
        "Redis, by hand: 8 round trips, a new request",
        "Redis, by hand: 3, a repeat",
        "Redis: 2 round trips, a new request",
        "Redis: 1, a repeat",
    ];
    for (way, name) in names.into_iter().enumerate() {
        let rate = median(rounds.iter().map(|round| round[way]));
        let ratio = median(rounds.iter().map(|round| round[way] / round[way % 2]));
        println!("{name:45} {rate:9.0} requests/s {ratio:4.1} x");
    }
}

/// Processes a request with two short locks around the work, each released on the way and at the end.
async fn by_hand(redis: &mut MultiplexedConnection, key: &str) {
    let (lock, record) = (format!("lock:{key}"), format!("record:{key}"));
    take(redis, &lock).await;
    let known: Option<String> = redis::cmd("GET").arg(&record).query_async(redis).await.unwrap();
    if known.is_some() {
        return unlock(redis, &lock).await;
    }
    set(redis, &record, "STARTED").await;
    unlock(redis, &lock).await;
    take(redis, &lock).await;
    set(redis, &record, "COMPLETED").await;
    unlock(redis, &lock).await;
    unlock(redis, &lock).await;
}

async fn take(redis: &mut MultiplexedConnection, lock: &str) {
    let mut set = redis::cmd("SET");
    set.arg(lock).arg("me").arg("NX").arg("PX").arg(10_000);
    let () = set.query_async(redis).await.unwrap();
}

async fn set(redis: &mut MultiplexedConnection, key: &str, value: &str) {
    let () = redis::cmd("SET").arg(key).arg(value).query_async(redis).await.unwrap();
}

async fn unlock(redis: &mut MultiplexedConnection, lock: &str) {
    let mut eval = redis::cmd("EVAL");
    let _: i64 = eval.arg(UNLOCK).arg(1).arg(lock).arg("me").query_async(redis).await.unwrap();
}

/// Returns the milliseconds of one.
async fn time<R: Future>(count: u32, mut begin: impl FnMut() -> R) -> f64 {
    begin().await;
    let began = Instant::now();
    for _ in 0..count {
        begin().await;
    }
    1000.0 * began.elapsed().as_secs_f64() / f64::from(count)
}

fn new_key() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("key-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

async fn once<S: Store>(records: &Records<S>, handler: Duration) {
    let work = async |_| {
        tokio::time::sleep(handler).await;
        Ok::<_, WorkError<std::fmt::Error>>(Answer::new(200, "text/plain", "ok"))
    };
    records.once(&new_key(), Fingerprint::none(), work).await.unwrap();
}

fn router(handler: Duration) -> Router {
    let work = move || async move {
        tokio::time::sleep(handler).await;
        "ok"
    };
    Router::new().route("/", post(work))
}

fn with_layer<S: Store>(records: &Records<S>, handler: Duration) -> Router {
    router(handler).layer(IdempotencyLayer::new(records.clone(), |_| String::new()))
}

async fn requests(count: u32, mut router: Router) -> f64 {
    let request = || {
        let key = format!("\"{}\"", new_key());
        Request::post("/").header("idempotency-key", key).body(Body::from("{}")).unwrap()
    };
    time(count, || {
        let response = router.call(request());
        async move {
            let response = response.await.unwrap();
            assert!(response.status().is_success(), "{response:?}");
        }
    })
    .await
}
