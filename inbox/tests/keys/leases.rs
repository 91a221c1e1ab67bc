//! Leases: one at a time, with a timely signal when it is over, and fenced when it was too late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outboxd_inbox::idempotency::{RedisStore, Store};
use outboxd_inbox::lease::{Acquired, FenceError, Lease, LeaseLost, Leases, check_fence};
use outboxd_inbox::redis::Servers;
use tokio::task::JoinSet;

use crate::base::wait::DEADLINE;
use crate::support::postgres::Database;
use crate::support::redis::{RedisServer, redis};

const SHORT: Duration = Duration::from_secs(2);

pub(crate) fn on(server: &RedisServer) -> RedisStore {
    RedisStore::new(Servers::one(server.client()))
}

#[track_caller]
pub(crate) fn held<S: Store>(acquired: Acquired<S>) -> Lease<S> {
    match acquired {
        Acquired::Held(lease) => lease,
        Acquired::Busy { left } => panic!("somebody has it, for {left:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_at_a_time_has_a_lease_on_redis() {
    one_at_a_time(Leases::new(on(redis()), "one").duration(SHORT)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_at_a_time_has_a_lease_on_postgres() {
    let database = Database::create().await;
    one_at_a_time(Leases::new(database.store().await, "one").duration(SHORT)).await;
}

/// Checks that one worker runs at a time. Each works for longer than a lease lasts without a sign of life.
async fn one_at_a_time<S: Store>(leases: Leases<S>) {
    let inside = Arc::new(AtomicU32::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..3 {
        let (leases, inside) = (leases.clone(), Arc::clone(&inside));
        workers.spawn(async move {
            let lease = leases.acquire("report").await.unwrap();
            let work = async {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
                tokio::time::sleep(SHORT * 2).await;
                inside.fetch_sub(1, Ordering::SeqCst);
            };
            lease.guard(work).await.unwrap();
            let fence = lease.fence();
            assert!(lease.release().await.unwrap());
            fence
        });
    }
    let fences = workers.join_all().await;
    assert!(fences[0] < fences[1] && fences[1] < fences[2], "{fences:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_work_is_stopped_before_another_one_can_have_the_lease() {
    let mut server = RedisServer::start(&[]);
    let lasts = Duration::from_secs(5);
    let leases = Leases::new(on(&server), "stopped").duration(lasts);
    let lease = held(leases.try_acquire("report").await.unwrap());
    // From here on no sign of life arrives; the last one was not before this.
    let silent = Instant::now();
    server.pause();
    let work = std::future::pending::<()>();
    assert_eq!(tokio::time::timeout(DEADLINE, lease.guard(work)).await.unwrap(), Err(LeaseLost));
    assert!(lease.lost().is_cancelled());
    let stopped = silent.elapsed();
    server.resume();
    assert!(stopped < lasts, "stopped after {stopped:?}");
    let next = leases.acquire("report").await.unwrap();
    assert!(next.fence() > lease.fence());
    assert!(!lease.release().await.unwrap(), "it is somebody else's");
    assert!(matches!(leases.try_acquire("report").await.unwrap(), Acquired::Busy { .. }));
}

/// What a fence is for: the one that was stopped in the middle does not look at its lease, but at the row.
#[tokio::test(flavor = "multi_thread")]
async fn an_effect_with_an_old_fence_is_refused_by_postgres() {
    let mut database = Database::create().await;
    database.store().await;
    let leases = Leases::new(on(redis()), "fenced").duration(SHORT);
    let (mut late, mut next) = (database.connect().await, database.connect().await);

    let old = held(leases.try_acquire("report").await.unwrap());
    let old_fence = old.fence();
    // Its process is stopped: no sign of life, and the signal is not read.
    drop(old);
    let new = leases.acquire("report").await.unwrap();
    let transaction = next.transaction().await.unwrap();
    check_fence(&transaction, "reports", new.fence()).await.unwrap();

    let too_late = late.transaction().await.unwrap();
    let refused = async { check_fence(&too_late, "reports", old_fence).await };
    // It waits for the other's transaction.
    let (refused, committed) = tokio::join!(refused, transaction.commit());
    committed.unwrap();
    assert!(matches!(refused, Err(FenceError::Fenced { .. })), "{refused:?}");
    too_late.rollback().await.unwrap();
    let again = late.transaction().await.unwrap();
    check_fence(&again, "reports", new.fence()).await.unwrap();
}
