//! Settings: handlers that change those of their session, and a database with another encoding.

use std::time::Duration;

use outboxd_inbox::core::Retry;
use outboxd_inbox::event::SequenceSource;
use outboxd_inbox::postgres::{Connector, SqlxTransaction, Transaction};
use outboxd_inbox::{Dedupe, Delivery, Failure};
use tokio_postgres::NoTls;

use crate::running::Running;
use crate::shop::{Shop, payments};
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::wait::{DEADLINE, eventually_eq};

/// A role that may do nothing, and a schema with tables of the same names.
const OTHERS: &str = "DO $$ BEGIN CREATE ROLE tenant_of_test; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$; \
     GRANT INSERT ON applied TO tenant_of_test; GRANT USAGE ON SEQUENCE applied_n_seq TO tenant_of_test; \
     CREATE SCHEMA tenant; CREATE TABLE tenant.inbox_parked (partition_id integer, \"offset\" bigint)";
const APPLY: &str = "INSERT INTO public.applied (event_id) VALUES ($1)";

fn shop_of_tenants() -> Shop<'static> {
    let shop = Shop::open(postgres18(), kafka());
    shop.execute(OTHERS);
    shop.produce(&payments(20, 4));
    shop
}

#[track_caller]
fn check_all_are_applied(shop: &Shop<'_>, running: Running) {
    shop.wait_for_applied(20);
    shop.wait_until_committed();
    eventually_eq(DEADLINE, &0, || shop.parked_count());
    running.stop();
    assert_eq!((shop.applied_count(), shop.dead_ids()), (20, Vec::<String>::new()));
}

/// Fails at the first attempt of some events, which are then handled from the table.
fn fails_once(event: &Delivery) -> Result<(), Failure> {
    if event.attempt() == 1 && event.id().ends_with('3') {
        Err("the first attempt")?;
    }
    Ok(())
}

#[test]
fn a_role_and_a_search_path_of_a_handler_end_with_it() {
    let shop = shop_of_tenants();
    let handler = |transaction: Transaction, event: Delivery| async move {
        transaction.batch_execute("SET LOCAL search_path TO tenant; SET LOCAL ROLE tenant_of_test").await?;
        transaction.execute(APPLY, &[&event.id()]).await?;
        fails_once(&event)
    };
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    let retry = Retry::new([]).park([Duration::from_millis(100)]);
    check_all_are_applied(&shop, Running::start(&shop, connector, |inbox| inbox.retry(retry), handler));
}

#[test]
fn a_role_and_a_search_path_of_a_session_end_with_the_handler_of_sqlx() {
    let shop = shop_of_tenants();
    let handler = |mut transaction: SqlxTransaction, event: Delivery| async move {
        sqlx::raw_sql("SET search_path TO tenant; SET ROLE tenant_of_test")
            .execute(&mut *transaction)
            .await?;
        sqlx::query(APPLY).bind(event.id()).execute(&mut *transaction).await?;
        fails_once(&event)
    };
    let retry = Retry::new([]).park([Duration::from_millis(100)]);
    let connector = Connector::sqlx(shop.url().parse().unwrap());
    check_all_are_applied(&shop, Running::start(&shop, connector, |inbox| inbox.retry(retry), handler));
}

#[test]
fn numbers_are_stored_whatever_role_and_search_path_a_handler_sets() {
    let shop = shop_of_tenants();
    let handler = |transaction: Transaction, event: Delivery| async move {
        transaction.batch_execute("SET LOCAL search_path TO tenant; SET LOCAL ROLE tenant_of_test").await?;
        transaction.execute(APPLY, &[&event.id()]).await?;
        Ok(())
    };
    let number = |event: &outboxd_inbox::event::Event| {
        let value: serde_json::Value = serde_json::from_slice(event.value.as_deref()?).ok()?;
        value["seq"].as_i64()
    };
    let dedupe = Dedupe::Sequence(SequenceSource::Function(std::sync::Arc::new(number)));
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    check_all_are_applied(&shop, Running::start(&shop, connector, |inbox| inbox.dedupe(dedupe), handler));
}

/// Invariant: a constraint that is checked at the end of the transaction is checked with the settings of the handler.
#[test]
fn a_deferred_constraint_is_checked_with_the_settings_of_its_handler() {
    let shop = shop_of_tenants();
    shop.execute(
        "CREATE FUNCTION only_a_tenant() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF current_user <> 'tenant_of_test' THEN RAISE 'not by a tenant'; END IF; RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER only_a_tenant AFTER INSERT ON applied DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION only_a_tenant()",
    );
    let handler = |transaction: Transaction, event: Delivery| async move {
        transaction.batch_execute("SET LOCAL ROLE tenant_of_test").await?;
        transaction.execute(APPLY, &[&event.id()]).await?;
        Ok(())
    };
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    check_all_are_applied(&shop, Running::start(&shop, connector, |inbox| inbox, handler));
}

/// Invariant: an event waits in the table whatever its error contains, in a database of any encoding.
#[test]
fn an_error_that_the_encoding_of_the_database_lacks_is_stored_without_it() {
    let shop = Shop::open(postgres18(), kafka());
    let name = shop.name();
    shop.execute_as_admin(&format!("DROP DATABASE {name}"));
    shop.execute_as_admin(&format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING LATIN1 LOCALE 'C'"));
    shop.execute("CREATE TABLE applied (n bigserial, event_id text)");
    shop.produce(&payments(20, 4));
    let handler = |transaction: Transaction, event: Delivery| async move {
        transaction.execute(APPLY, &[&event.id()]).await?;
        if event.id().ends_with('3') {
            Err("the amount is 3 €, not 4 €: \u{1f4b6}")?;
        }
        Ok(())
    };
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    let retry = Retry::new([]).park([Duration::from_secs(600)]);
    let running = Running::start(&shop, connector, |inbox| inbox.retry(retry), handler);
    shop.wait_for_applied(20 - 5 - 2);
    // The events 3 and 13 wait, and the later ones of their keys.
    eventually_eq(DEADLINE, &(20 - 5 - 2, 5 + 2), || (shop.applied_count(), shop.parked_count()));
    running.stop();
    let errors = shop.query("SELECT DISTINCT error FROM inbox_parked WHERE error IS NOT NULL", &[]);
    let errors: Vec<String> = errors.iter().map(|row| row.get(0)).collect();
    assert_eq!(errors, ["the amount is 3 ?, not 4 ?: ?"]);
}
