//! The usual code by hand, which goes wrong, beside the same thing here, which does not. Each pair has the number of its
//! defect in the list that this crate was made from.

use std::time::Duration;

use outboxd_inbox::idempotency::{Answer, Fingerprint, FinishOutcome, Outcome, Records, Start};
use outboxd_inbox::lease::{Acquired, Leases};
use redis::{AsyncCommands as _, SetExpiry, SetOptions, aio::MultiplexedConnection};

use crate::base::wait::DEADLINE;
use crate::leases::{held, on};
use crate::redis_servers::round_trips;
use crate::support::postgres::Database;
use crate::support::redis::{RedisServer, redis};

const SHORT: Duration = Duration::from_millis(200);

/// Acquires the usual lock: `SET key value NX PX`.
async fn lock(redis: &mut MultiplexedConnection, key: &str, value: &str, lasts: Duration) -> bool {
    let lasts = u64::try_from(lasts.as_millis()).unwrap();
    let options = SetOptions::default()
        .conditional_set(redis::ExistenceCheck::NX)
        .with_expiration(SetExpiry::PX(lasts));
    redis.set_options::<_, _, Option<String>>(key, value, options).await.unwrap().is_some()
}

async fn connect(server: &RedisServer) -> MultiplexedConnection {
    server.client().get_multiplexed_async_connection().await.unwrap()
}

fn done(text: &str) -> Outcome {
    Outcome::Completed(Answer::new(200, "text/plain", text))
}

/// Waits until a lock is gone by itself.
async fn until_gone(redis: &mut MultiplexedConnection, key: &str) {
    let gone = async { while redis.exists(key).await.unwrap() {} };
    tokio::time::timeout(DEADLINE, gone).await.unwrap();
}

/// D1: the lock is busy, so the message is acknowledged. Then its holder dies.
#[tokio::test(flavor = "multi_thread")]
async fn d1_a_message_whose_lock_is_busy_is_not_lost() {
    let mut old = connect(redis()).await;
    assert!(lock(&mut old, "d1:lock", "1", SHORT).await);
    let acknowledged = !lock(&mut old, "d1:lock", "1", SHORT).await;
    until_gone(&mut old, "d1:lock").await;
    assert!(acknowledged, "the old way: nobody gets the message any more, and nothing was done");

    let leases = Leases::new(on(redis()), "d1").duration(SHORT);
    let holder = held(leases.try_acquire("message").await.unwrap());
    assert!(matches!(leases.try_acquire("message").await.unwrap(), Acquired::Busy { .. }));
    // It dies.
    drop(holder);
    tokio::time::timeout(DEADLINE, leases.acquire("message")).await.unwrap().unwrap();
}

/// D7: a lock without an owner is deleted by the one who has lost it.
#[tokio::test(flavor = "multi_thread")]
async fn d7_no_client_gives_back_the_lease_of_another() {
    let mut old = connect(redis()).await;
    assert!(lock(&mut old, "d7:lock", "1", SHORT).await);
    until_gone(&mut old, "d7:lock").await;
    assert!(lock(&mut old, "d7:lock", "1", DEADLINE).await, "the second one has it");
    let () = old.del("d7:lock").await.unwrap();
    assert!(lock(&mut old, "d7:lock", "1", DEADLINE).await, "the old way: the third one has it too");

    let mut server = RedisServer::start(&[]);
    let leases = Leases::new(on(&server), "d7").duration(SHORT);
    let first = held(leases.try_acquire("report").await.unwrap());
    server.pause();
    first.lost().cancelled().await;
    server.resume();
    let second = tokio::time::timeout(DEADLINE, leases.acquire("report")).await.unwrap().unwrap();
    assert!(!first.release().await.unwrap());
    assert!(matches!(leases.try_acquire("report").await.unwrap(), Acquired::Busy { .. }));
    assert!(second.release().await.unwrap());
}

/// D8: STARTED expires while the work is still running; the late worker overwrites the result of the second one.
#[tokio::test(flavor = "multi_thread")]
async fn d8_who_is_late_overwrites_nothing() {
    let mut old = connect(redis()).await;
    assert!(lock(&mut old, "d8:record", "STARTED", SHORT).await);
    until_gone(&mut old, "d8:record").await;
    assert!(lock(&mut old, "d8:record", "STARTED", DEADLINE).await);
    let () = old.set("d8:record", "COMPLETED by the second").await.unwrap();
    let () = old.set("d8:record", "COMPLETED by the first").await.unwrap();
    let kept: String = old.get("d8:record").await.unwrap();
    assert_eq!(kept, "COMPLETED by the first", "the old way");

    let mut server = RedisServer::start(&[]);
    let lease = Duration::from_secs(2);
    let records = Records::new(on(&server), "d8").lease(lease);
    let begin = async || records.begin("a-1", Fingerprint::none()).await.unwrap();
    let Start::Run(first) = begin().await else { panic!("not begun") };
    // As long as the first one is alive, no other takes over, however long the work lasts.
    tokio::time::sleep(lease * 2).await;
    assert!(matches!(begin().await, Start::InFlight { .. }));
    // It is cut off.
    server.pause();
    first.lost().cancelled().await;
    server.resume();
    let second = loop {
        match begin().await {
            Start::Run(second) => break second,
            Start::InFlight { left } => tokio::time::sleep(left).await,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(second.finish(&done("second")).await.unwrap(), FinishOutcome::Written);
    assert_eq!(first.finish(&done("first")).await.unwrap(), FinishOutcome::Fenced);
    let Start::Completed(kept) = begin().await else { panic!("not kept") };
    assert_eq!(kept.body, b"second");
}

/// D9: a failure of the moment is remembered for a day.
#[tokio::test(flavor = "multi_thread")]
async fn d9_a_failure_of_the_moment_is_not_remembered() {
    let mut old = connect(redis()).await;
    let () = old.set_ex("d9:record", "FAILED: no connection", 86400).await.unwrap();
    let repeat: String = old.get("d9:record").await.unwrap();
    assert!(repeat.starts_with("FAILED"), "the old way: the repeat fails too, with all connections there");

    let records = Records::new(on(redis()), "d9");
    let begin = async || records.begin("a-1", Fingerprint::none()).await.unwrap();
    let Start::Run(first) = begin().await else { panic!("not begun") };
    assert_eq!(first.finish(&Outcome::Retryable).await.unwrap(), FinishOutcome::Written);
    let Start::Run(second) = begin().await else { panic!("not begun") };
    assert_eq!(second.claim().attempt, 2);
}

/// D10: the process ends, and its key stays blocked for as long as the record is kept.
#[tokio::test(flavor = "multi_thread")]
async fn d10_the_key_of_a_process_that_has_ended_is_taken_over_after_the_lease() {
    let mut old = connect(redis()).await;
    assert!(lock(&mut old, "d10:record", "STARTED", Duration::from_mins(5)).await);
    let blocked: i64 = old.ttl("d10:record").await.unwrap();
    assert!(blocked > 290, "the old way: for {blocked} s, since work may last that long");

    // Work may last for as long as it likes here, and the lease is short nevertheless.
    let records = Records::new(on(redis()), "d10").lease(SHORT).keep(Duration::from_mins(5));
    let begin = async || records.begin("a-1", Fingerprint::none()).await.unwrap();
    drop(begin().await);
    let taken_over = async {
        loop {
            match begin().await {
                Start::Run(attempt) => return attempt,
                Start::InFlight { left } => {
                    assert!(left <= SHORT);
                    tokio::time::sleep(left).await;
                }
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(tokio::time::timeout(DEADLINE, taken_over).await.unwrap().claim().attempt, 2);
}

/// D11: the effect is in the database and the record in Redis. The process ends between the two.
#[tokio::test(flavor = "multi_thread")]
async fn d11_an_effect_is_not_repeated_because_its_record_was_elsewhere() {
    let mut database = Database::create().await;
    let mut client = database.connect().await;
    client.batch_execute("CREATE TABLE old (n integer); CREATE TABLE new (n integer)").await.unwrap();
    let count = async |client: &tokio_postgres::Client, table: &str| -> i64 {
        client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0)
    };

    let mut old = connect(redis()).await;
    for process_ends in [true, false] {
        assert!(lock(&mut old, "d11:record", "STARTED", SHORT).await);
        client.execute("INSERT INTO old VALUES (1)", &[]).await.unwrap();
        if process_ends {
            until_gone(&mut old, "d11:record").await;
            continue;
        }
        let () = old.set("d11:record", "COMPLETED").await.unwrap();
    }
    assert_eq!(count(&client, "old").await, 2, "the old way");

    let records = Records::new(database.store().await, "d11").lease(SHORT);
    // It ends before the commit, and after it.
    for commits in [false, true] {
        let Start::Run(attempt) = wait_for(&records).await else { panic!("done too early") };
        let transaction = client.transaction().await.unwrap();
        transaction.execute("INSERT INTO new VALUES (1)", &[]).await.unwrap();
        let ended = records.finish_in(&transaction, attempt.claim(), &done("paid")).await.unwrap();
        assert_eq!(ended, FinishOutcome::Written);
        if commits {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
    }
    assert!(matches!(wait_for(&records).await, Start::Completed(_)));
    assert_eq!(count(&client, "new").await, 1);
}

/// Begins as soon as no other attempt is running.
async fn wait_for<S: outboxd_inbox::idempotency::Store>(records: &Records<S>) -> Start<S> {
    loop {
        match records.begin("a-1", Fingerprint::none()).await.unwrap() {
            Start::InFlight { left } => tokio::time::sleep(left).await,
            other => return other,
        }
    }
}

/// D12: two round trips for a new request and one for a repeat, as the usual code claims.
#[tokio::test(flavor = "multi_thread")]
async fn d12_the_round_trips_are_as_few_as_documented() {
    let server = RedisServer::start(&[]);
    let mut old = connect(&server).await;
    let unlock =
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
    let mut costs = Vec::new();
    for _ in 0..2 {
        server.ask("CONFIG RESETSTAT");
        old_way(&mut old, unlock).await;
        // What scripts call is counted too: one `get` for each.
        let counts = round_trips(&server);
        costs.push(counts.values().sum::<u64>() - counts["eval"]);
    }
    assert_eq!(costs, [8, 3], "the old way");
    // This one: `redis_servers::a_new_request_costs_two_round_trips_and_a_repeat_one`.
    let records = Records::new(on(&server), "d12");
    let begin = async || records.begin("a-1", Fingerprint::none()).await.unwrap();
    drop(records.begin("warm", Fingerprint::none()).await.unwrap());
    server.ask("CONFIG RESETSTAT");
    let Start::Run(attempt) = begin().await else { panic!("not begun") };
    attempt.finish(&done("x")).await.unwrap();
    assert!(matches!(begin().await, Start::Completed(_)));
    // The first finish is not known to the server by its hash.
    assert_eq!(round_trips(&server), [("eval".to_owned(), 1), ("evalsha".to_owned(), 3)].into());
}

/// Uses two short locks around the work, each released once on the way and once at the end.
async fn old_way(redis: &mut MultiplexedConnection, unlock: &str) {
    let release = async |redis: &mut MultiplexedConnection| {
        let mut eval = redis::cmd("EVAL");
        let _: i64 = eval.arg(unlock).arg(1).arg("d12:lock").arg("me").query_async(redis).await.unwrap();
    };
    assert!(lock(redis, "d12:lock", "me", DEADLINE).await);
    let known: Option<String> = redis.get("d12:record").await.unwrap();
    if known.is_some() {
        release(redis).await;
        return;
    }
    let () = redis.set("d12:record", "STARTED").await.unwrap();
    release(redis).await;
    assert!(lock(redis, "d12:lock", "me", DEADLINE).await);
    let () = redis.set("d12:record", "COMPLETED").await.unwrap();
    release(redis).await;
    release(redis).await;
}
