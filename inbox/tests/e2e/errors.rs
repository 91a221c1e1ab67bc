//! Errors of other crates in handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use outboxd_inbox::core::Retry;
use outboxd_inbox::postgres::{Connector, SqlxTransaction, Transaction};
use outboxd_inbox::{Delivery, Failure};
use tokio_postgres::NoTls;

use crate::running::Running;
use crate::shop::{Shop, payments};
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;

const APPLY: &str = "INSERT INTO applied (event_id, customer_id, seq) VALUES ($1, 0, 0)";
const CONFLICT: &str = "DO $$ BEGIN RAISE EXCEPTION 'a conflict' USING ERRCODE = '40001'; END $$";
/// Conflicts before the event can be applied.
const CONFLICTS: u32 = 3;

/// Applies an event in a service's function that is independent of the inbox. It wraps the driver's error without a
/// context, which hides its type.
async fn apply(transaction: &Transaction, id: &str, call: u32) -> anyhow::Result<()> {
    if call < CONFLICTS {
        transaction.batch_execute(CONFLICT).await?;
    }
    transaction.execute(APPLY, &[&id]).await?;
    Ok(())
}

async fn apply_with_sqlx(transaction: &mut SqlxTransaction, id: &str, call: u32) -> anyhow::Result<()> {
    if call < CONFLICTS {
        sqlx::query(CONFLICT).execute(&mut **transaction).await?;
    }
    sqlx::query(APPLY).bind(id).execute(&mut **transaction).await?;
    Ok(())
}

/// Checks an invariant: a conflict between transactions is no attempt, also when its error is inside of an
/// `anyhow::Error`. The events would be dead letters otherwise.
#[track_caller]
fn check(shop: &Shop<'_>, running: Running) {
    shop.wait_for_applied(1);
    shop.wait_until_committed();
    running.stop();
    assert_eq!(shop.dead_ids(), Vec::<String>::new());
}

#[test]
fn a_conflict_inside_of_an_anyhow_error_is_no_attempt() {
    let shop = Shop::open(postgres18(), kafka());
    shop.produce(&payments(1, 1));
    let calls = Arc::new(AtomicU32::new(0));
    let handler = move |transaction: Transaction, event: Delivery| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        async move {
            apply(&transaction, event.id(), call).await?;
            Ok::<_, Failure>(())
        }
    };
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    check(&shop, Running::start(&shop, connector, |inbox| inbox.retry(Retry::new([])), handler));
}

#[test]
fn a_conflict_inside_of_an_anyhow_error_is_no_attempt_with_sqlx() {
    let shop = Shop::open(postgres18(), kafka());
    shop.produce(&payments(1, 1));
    let calls = Arc::new(AtomicU32::new(0));
    let handler = move |mut transaction: SqlxTransaction, event: Delivery| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        async move {
            apply_with_sqlx(&mut transaction, event.id(), call).await?;
            Ok::<_, Failure>(())
        }
    };
    let connector = Connector::sqlx(shop.url().parse().unwrap());
    check(&shop, Running::start(&shop, connector, |inbox| inbox.retry(Retry::new([])), handler));
}
