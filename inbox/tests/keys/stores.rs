//! The same cases for each store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use outboxd_inbox::idempotency::{
    Answer, BeginOutcome, BeginRequest, Claim, ExtendOutcome, Fingerprint, FinishOutcome, OnceOutcome,
    Outcome, Owner, Records, Start, Store, WorkError,
};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::base::wait::DEADLINE;
use crate::support::dynamodb::{DynamoDb, OnDynamoDb};
use crate::support::postgres::Database;
use crate::support::redis::redis;
use crate::support::subject::{OnPostgres, OnRedis, Subject, entry, key};
use crate::walk::follows_the_rule;

#[tokio::test(flavor = "multi_thread")]
async fn redis_keeps_records() {
    all_cases(OnRedis::new(redis())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_records() {
    all_cases(OnPostgres::create().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dynamodb_keeps_records() {
    let server = tokio::task::block_in_place(DynamoDb::start);
    all_cases(OnDynamoDb::new(&server)).await;
}

async fn all_cases<S: Subject>(store: S) {
    follows_the_rule(&store).await;
    a_long_answer_is_kept_as_it_is(&store).await;
    who_stays_away_is_taken_over_by_the_clock_of_the_store(&store).await;
    a_record_is_forgotten_by_the_clock_of_the_store(&store).await;
    of_many_at_a_time_one_begins(Arc::new(store)).await;
}

async fn a_long_answer_is_kept_as_it_is<S: Store>(store: &S) {
    let key = key("long");
    let mut answer =
        Answer::new(201, "application/octet-stream", (0..=255).cycle().take(300_000).collect::<Vec<u8>>());
    answer.headers.push(("set-cookie".to_owned(), b"a=\xF6".to_vec()));
    answer.headers.push(("set-cookie".to_owned(), Vec::new()));
    let BeginOutcome::Run(claim) = store.begin(&key, &entry(1, 1)).await.unwrap() else {
        panic!("not begun")
    };
    let ending = Outcome::Completed(answer.clone());
    assert_eq!(store.finish(&claim, &ending, DEADLINE).await.unwrap(), FinishOutcome::Written);
    assert_eq!(store.begin(&key, &entry(2, 1)).await.unwrap(), BeginOutcome::Completed(answer));
}

async fn who_stays_away_is_taken_over_by_the_clock_of_the_store<S: Store>(store: &S) {
    let key = key("away");
    let short = |owner: u128| BeginRequest { lease: Duration::from_millis(150), ..entry(owner, 1) };
    let BeginOutcome::Run(late) = store.begin(&key, &short(1)).await.unwrap() else { panic!("not begun") };
    let next = loop {
        match store.begin(&key, &short(2)).await.unwrap() {
            BeginOutcome::Run(claim) => break claim,
            BeginOutcome::InFlight { left } => tokio::time::sleep(left).await,
            other => panic!("{other:?}"),
        }
    };
    assert!(next.fence > late.fence);
    assert_eq!(store.extend(&late, DEADLINE).await.unwrap(), ExtendOutcome::Fenced);
    assert_eq!(store.extend(&next, DEADLINE).await.unwrap(), ExtendOutcome::Extended);
    assert!(matches!(store.begin(&key, &short(3)).await.unwrap(), BeginOutcome::InFlight { .. }));
}

async fn a_record_is_forgotten_by_the_clock_of_the_store<S: Store>(store: &S) {
    let key = key("forgotten");
    let BeginOutcome::Run(claim) = store.begin(&key, &entry(1, 1)).await.unwrap() else {
        panic!("not begun")
    };
    let keep = Duration::from_millis(200);
    let ending = Outcome::Completed(Answer::default());
    assert_eq!(store.finish(&claim, &ending, keep).await.unwrap(), FinishOutcome::Written);
    let again = loop {
        match store.begin(&key, &entry(2, 2)).await.unwrap() {
            BeginOutcome::Run(claim) => break claim,
            BeginOutcome::Mismatch => tokio::time::sleep(keep / 10).await,
            other => panic!("{other:?}"),
        }
    };
    assert!(again.attempt == 1 && again.fence > claim.fence);
}

async fn of_many_at_a_time_one_begins<S: Store>(store: Arc<S>) {
    let mut racers = JoinSet::new();
    for owner in 0..200u128 {
        let store = Arc::clone(&store);
        racers.spawn(async move { store.begin(&key("race"), &entry(owner, 1)).await.unwrap() });
    }
    let begun = racers.join_all().await;
    let count = |wanted: fn(&BeginOutcome) -> bool| begun.iter().filter(|begun| wanted(begun)).count();
    assert_eq!(count(|begun| matches!(begun, BeginOutcome::Run(_))), 1);
    assert_eq!(count(|begun| matches!(begun, BeginOutcome::InFlight { .. })), 199);
}

/// The claim is being finished in a transaction that is not committed yet: no request waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn an_effect_and_its_answer_are_committed_together() {
    let mut database = Database::create().await;
    let records = Records::new(database.store().await, "payments");
    let mut client = database.connect().await;
    client.batch_execute("CREATE TABLE effects (n integer)").await.unwrap();
    let answer = Answer::new(201, "text/plain", "paid");
    let ending = Outcome::Completed(answer.clone());
    let none = Fingerprint::none();

    for rolled_back in [true, false] {
        let Start::Run(attempt) = records.begin("a-1", none).await.unwrap() else { panic!("not begun") };
        let transaction = client.transaction().await.unwrap();
        transaction.execute("INSERT INTO effects VALUES (1)", &[]).await.unwrap();
        let ended = records.finish_in(&transaction, attempt.claim(), &ending).await.unwrap();
        assert_eq!(ended, FinishOutcome::Written);
        assert!(matches!(records.begin("a-1", none).await.unwrap(), Start::InFlight { .. }));
        // A sign of life is not waited for either, and the lease does not count as lost.
        let entry = Duration::from_secs(30);
        records.store().extend(attempt.claim(), entry).await.unwrap_err();
        if rolled_back {
            transaction.rollback().await.unwrap();
            assert_eq!(attempt.finish(&Outcome::Retryable).await.unwrap(), FinishOutcome::Written);
        } else {
            transaction.commit().await.unwrap();
            // The layer reports it again, and that changes nothing.
            assert_eq!(attempt.finish(&Outcome::Retryable).await.unwrap(), FinishOutcome::AlreadyFinished);
        }
    }
    let Start::Completed(kept) = records.begin("a-1", none).await.unwrap() else { panic!("not kept") };
    assert_eq!(kept, answer);
    let count: i64 = client.query_one("SELECT count(*) FROM effects", &[]).await.unwrap().get(0);
    assert_eq!(count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_records_are_purged_when_it_is_asked_for_and_in_the_background() {
    let mut database = Database::create().await;
    let store = database.store().await.purge_every(Duration::from_millis(20));
    let client = database.connect().await;
    let sql = "INSERT INTO idempotency_records SELECT 'old', n::text, 'open', '', 1, 1, '', now(), \
               now() + CASE WHEN n > 2500 THEN 1 ELSE -1 END * interval '1 hour' FROM generate_series(1, 2600) n";
    client.execute(sql, &[]).await.unwrap();
    assert_eq!(store.purge().await.unwrap(), 2500);
    assert_eq!(store.purge().await.unwrap(), 0);

    client.execute("UPDATE idempotency_records SET expires_at = now()", &[]).await.unwrap();
    store.begin(&key("purges"), &entry(1, 1)).await.unwrap();
    let old = "SELECT count(*) FROM idempotency_records WHERE scope = 'old'";
    let purged = async { while client.query_one(old, &[]).await.unwrap().get::<_, i64>(0) > 0 {} };
    tokio::time::timeout(DEADLINE, purged).await.unwrap();
}

/// A connection that is lost is opened again.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_to_postgres_is_opened_again() {
    let mut database = Database::create().await;
    let store = database.store().await;
    let client = database.connect().await;
    let owner = Owner::random();
    let entry = BeginRequest { owner, ..entry(1, 1) };
    store.begin(&key("lost"), &entry).await.unwrap();
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let ended: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    assert!(ended > 0);
    let within =
        tokio::time::timeout(DEADLINE, async { while store.begin(&key("lost"), &entry).await.is_err() {} });
    within.await.unwrap();
}

/// The provider is called once, for any number of requests.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_once_is_done_once() {
    let lease = Duration::from_secs(2);
    let records = Records::new(OnRedis::new(redis()), "once").lease(lease);
    let none = Fingerprint::none();
    let charged = |answer: Result<&'static str, WorkError<fmt::Error>>| async move {
        Ok::<_, WorkError<fmt::Error>>(Answer::new(200, "text/plain", answer?))
    };
    let away = records.once("a", none, |_| charged(Err(fmt::Error.into()))).await.unwrap();
    assert!(matches!(away, OnceOutcome::Retryable(fmt::Error)), "{away:?}");
    // Stopped in the middle: there are no signs of life, and the next one takes over.
    let begun = Notify::new();
    let stopped = records.once("a", none, |_| {
        begun.notify_one();
        std::future::pending::<Result<Answer, WorkError<fmt::Error>>>()
    });
    tokio::select! {
        _ = stopped => panic!("it has ended"),
        () = begun.notified() => {}
    }
    let asked = AtomicU32::new(0);
    let charge = |claim: Claim| {
        asked.fetch_add(1, Ordering::SeqCst);
        assert_eq!(claim.attempt, 3);
        charged(Ok("charged"))
    };
    let mut busy = 0;
    let done = loop {
        match records.once("a", none, charge).await.unwrap() {
            OnceOutcome::InFlight { left } => tokio::time::sleep(left).await,
            other => break other,
        }
        busy += 1;
    };
    assert!(
        busy > 0 && matches!(&done, OnceOutcome::Completed(answer) if answer.body == b"charged"),
        "{done:?}"
    );
    assert!(matches!(records.once("a", none, charge).await.unwrap(), OnceOutcome::Completed(_)));
    let other = Fingerprint::of([&b"other"[..]]);
    assert!(matches!(records.once("a", other, charge).await.unwrap(), OnceOutcome::Mismatch));
    assert_eq!(asked.load(Ordering::SeqCst), 1);

    let refused =
        || async { Err(WorkError::<fmt::Error>::Failed(Answer::new(402, "text/plain", "no money"))) };
    for _ in 0..2 {
        let failed = records.once("b", none, |_| refused()).await.unwrap();
        assert!(matches!(&failed, OnceOutcome::Failed(answer) if answer.status == 402), "{failed:?}");
    }
}

/// The handler has finished its claim in a transaction of its own, and has other things to do before it returns.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_was_finished_by_its_owner_does_not_count_as_lost() {
    let mut database = Database::create().await;
    // Long enough for a machine under load: a claim is lost when the store does not answer within its lease.
    let lease = Duration::from_secs(6);
    let records = Records::new(database.store().await, "finished").lease(lease);
    let Start::Run(attempt) = records.begin("a", Fingerprint::none()).await.unwrap() else {
        panic!("not begun")
    };
    let client = database.connect().await;
    let ending = Outcome::Completed(Answer::default());
    assert_eq!(records.finish_in(&client, attempt.claim(), &ending).await.unwrap(), FinishOutcome::Written);
    attempt.guard(tokio::time::sleep(lease * 2)).await.unwrap();
}
