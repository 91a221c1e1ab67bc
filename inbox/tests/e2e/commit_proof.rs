//! A handler that returns `Ok` is applied, or fails. A handler cannot end, escape or spoil the inbox's transaction unseen.

use std::collections::BTreeSet;
use std::time::Duration;

use outboxd_inbox::core::Retry;
use outboxd_inbox::event::Event;
use outboxd_inbox::postgres::{Connector, SqlxTransaction, Transaction};
use outboxd_inbox::testing::{Harness, HarnessError, event};
use outboxd_inbox::{Delivery, Failure};
use tokio_postgres::NoTls;

use crate::running::Running;
use crate::shop::{Shop, payments};
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::wait::{DEADLINE, eventually};

const APPLY: &str = "INSERT INTO applied (event_id) VALUES ($1)";
/// A statement that fails.
const FAILS: &str = "INSERT INTO a_table_that_does_not_exist VALUES (1)";

async fn apply(transaction: &Transaction, event: &Delivery) -> Result<(), Failure> {
    transaction.execute(APPLY, &[&event.id()]).await?;
    Ok(())
}

async fn apply_with_sqlx(transaction: &mut SqlxTransaction, event: &Delivery) -> Result<(), Failure> {
    sqlx::query(APPLY).bind(event.id()).execute(&mut **transaction).await?;
    Ok(())
}

async fn survives(transaction: Transaction, event: Delivery) -> Result<(), Failure> {
    apply(&transaction, &event).await?;
    if event.id().ends_with('1') {
        transaction.batch_execute(FAILS).await.ok();
    }
    Ok(())
}

async fn survives_with_sqlx(mut transaction: SqlxTransaction, event: Delivery) -> Result<(), Failure> {
    apply_with_sqlx(&mut transaction, &event).await?;
    if event.id().ends_with('1') {
        sqlx::query(FAILS).execute(&mut *transaction).await.ok();
    }
    Ok(())
}

/// Checks an invariant: an event whose offset is committed is applied or a dead letter.
#[track_caller]
fn check_nothing_is_lost(shop: &Shop<'_>, running: Running) {
    let expected: BTreeSet<String> = (0..20).map(|n| format!("event-{n}")).collect();
    let dead = || shop.dead_ids().into_iter().collect::<BTreeSet<_>>();
    let applied = || {
        let rows = shop.query("SELECT event_id FROM applied", &[]);
        rows.iter().map(|row| row.get(0)).collect::<BTreeSet<String>>()
    };
    eventually(DEADLINE, "each event is applied or a dead letter", || &applied() | &dead() == expected);
    shop.wait_until_committed();
    running.stop();
    assert_eq!(dead(), ["event-1", "event-11"].map(str::to_owned).into());
    assert_eq!(applied().intersection(&dead()).count(), 0);
}

#[test]
fn an_event_whose_failed_statement_was_survived_is_a_dead_letter() {
    let shop = Shop::open(postgres18(), kafka());
    shop.produce(&payments(20, 20));
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    let retry = Retry::new([Duration::from_millis(10)]);
    check_nothing_is_lost(&shop, Running::start(&shop, connector, |inbox| inbox.retry(retry), survives));
}

#[test]
fn an_event_whose_failed_statement_was_survived_is_a_dead_letter_with_sqlx() {
    let shop = Shop::open(postgres18(), kafka());
    shop.produce(&payments(20, 20));
    let connector = Connector::sqlx(shop.url().parse().unwrap());
    let retry = Retry::new([Duration::from_millis(10)]);
    let batch = 5.try_into().unwrap();
    let configure = |inbox: outboxd_inbox::Inbox<SqlxTransaction>| inbox.retry(retry).batch(batch);
    check_nothing_is_lost(&shop, Running::start(&shop, connector, configure, survives_with_sqlx));
}

fn events() -> [Event; 3] {
    [event("a", "1", "{}"), event("a", "2", "{}"), event("b", "3", "{}")]
}

fn harness(shop: &Shop<'_>) -> Harness {
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    Harness::new(connector)
        .reset("TRUNCATE applied")
        .observe("SELECT event_id FROM applied ORDER BY event_id")
        .schedules(5)
}

fn harness_with_sqlx(shop: &Shop<'_>) -> Harness<SqlxTransaction> {
    Harness::new(Connector::sqlx(shop.url().parse().unwrap()))
        .reset("TRUNCATE applied")
        .observe("SELECT event_id FROM applied ORDER BY event_id")
        .schedules(5)
}

#[track_caller]
fn check_is_found(found: Result<(), HarnessError>, expected: &str) {
    let Err(HarnessError::Failed { error, .. }) = &found else { panic!("{found:?}") };
    assert!(error.contains(expected), "{error}");
}

#[test]
fn the_harness_finds_a_handler_that_survives_a_failed_statement() {
    let shop = Shop::open(postgres18(), kafka());
    check_is_found(shop.block_on(harness(&shop).check(&events(), survives)), "statements had failed");
    let found = shop.block_on(harness_with_sqlx(&shop).check(&events(), survives_with_sqlx));
    check_is_found(found, "statements had failed");
}

/// Invariant: only the inbox ends its transactions. A COMMIT of a handler fails and leaves nothing, a ROLLBACK is found.
#[test]
fn a_handler_cannot_end_the_transaction_of_the_inbox() {
    let shop = Shop::open(postgres18(), kafka());
    let cases = [
        ("COMMIT", "statements had failed"),
        ("END", "statements had failed"),
        ("ROLLBACK", "has ended the transaction"),
        ("ROLLBACK; BEGIN", "has ended the transaction"),
    ];
    for (sql, expected) in cases {
        let handler = move |transaction: Transaction, event: Delivery| async move {
            apply(&transaction, &event).await?;
            transaction.batch_execute(sql).await.ok();
            Ok(())
        };
        let found = shop.block_on(harness(&shop).check(&events(), handler));
        let Err(HarnessError::Failed { error, .. }) = &found else { panic!("{sql}: {found:?}") };
        let is_expected = error.contains(expected) || error.contains("has ended the transaction");
        assert!(is_expected, "{sql}: {error}");
        assert_eq!(shop.applied_count(), 0, "{sql}");
    }
}

#[test]
fn a_savepoint_is_undone_alone() {
    let shop = Shop::open(postgres18(), kafka());
    let handler = |transaction: Transaction, event: Delivery| async move {
        let optional = transaction.savepoint().await?;
        optional.batch_execute(FAILS).await.unwrap_err();
        optional.roll_back().await?;
        let dropped = transaction.savepoint().await?;
        dropped.execute(APPLY, &[&"dropped"]).await?;
        drop(dropped);
        let kept = transaction.savepoint().await?;
        apply(&kept, &event).await?;
        kept.release().await?;
        Ok(())
    };
    shop.block_on(harness(&shop).check(&events(), handler)).unwrap();
    let applied = shop.query("SELECT FROM applied WHERE event_id = 'dropped'", &[]);
    assert_eq!((shop.applied_count(), applied.len()), (3, 0));
}

/// Invariant: what sqlx calls a nested transaction is a savepoint, however it ends.
#[test]
fn a_nested_transaction_of_sqlx_is_a_savepoint() {
    use sqlx::Connection as _;
    let shop = Shop::open(postgres18(), kafka());
    let handler = |mut transaction: SqlxTransaction, event: Delivery| async move {
        transaction.begin().await?.rollback().await?;
        let mut dropped = transaction.begin().await?;
        sqlx::query(FAILS).execute(&mut *dropped).await.unwrap_err();
        drop(dropped);
        let mut nested = transaction.begin().await?;
        sqlx::query(APPLY).bind(event.id()).execute(&mut *nested).await?;
        nested.commit().await?;
        Ok(())
    };
    shop.block_on(harness_with_sqlx(&shop).check(&events(), handler)).unwrap();
    assert_eq!(shop.applied_count(), 3);
    let fails = |mut transaction: SqlxTransaction, event: Delivery| async move {
        let mut nested = transaction.begin().await?;
        sqlx::query(APPLY).bind(event.id()).execute(&mut *nested).await?;
        nested.commit().await?;
        Err(Failure::retry("after the nested transaction"))
    };
    check_is_found(
        shop.block_on(harness_with_sqlx(&shop).check(&events(), fails)),
        "after the nested transaction",
    );
    assert_eq!(shop.applied_count(), 0);
}
