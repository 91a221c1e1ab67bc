//! An id is scoped by its source, and an event is never taken for the repeat of another one.

use std::time::Duration;

use outboxd_inbox::core::Retry;
use outboxd_inbox::event::IdSource;
use outboxd_inbox::postgres::{Connector, Transaction};
use outboxd_inbox::{Delivery, Failure, Inbox};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use tokio_postgres::NoTls;

use crate::running::Running;
use crate::shop::Shop;
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::wait::{DEADLINE, eventually_eq};

fn produce(shop: &Shop<'_>, key: &str, value: &str, headers: &[(&str, &str)]) {
    let headers = headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
        headers.insert(Header { key, value: Some(*value) })
    });
    let topic = shop.topic();
    kafka().produce(BaseRecord::to(&topic).key(key.as_bytes()).payload(value.as_bytes()).headers(headers));
}

async fn apply(transaction: Transaction, event: Delivery) -> Result<(), Failure> {
    let value = String::from_utf8_lossy(event.value.as_deref().unwrap_or_default()).into_owned();
    assert_ne!(value, "panic", "the event says so");
    transaction.execute("INSERT INTO applied (event_id) VALUES ($1)", &[&value]).await?;
    Ok(())
}

fn start(shop: &Shop<'_>, configure: impl FnOnce(Inbox) -> Inbox) -> Running {
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    let retry = Retry::new([Duration::from_millis(10)]);
    Running::start(shop, connector, |inbox| configure(inbox.retry(retry)), apply)
}

/// Waits until these values are applied and the dead letters have these values.
#[track_caller]
fn wait_for(shop: &Shop<'_>, applied: &[&str], dead: &[&str]) {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
    eventually_eq(DEADLINE, &(texts(applied), texts(dead)), || {
        let rows = shop.query("SELECT event_id FROM applied ORDER BY event_id", &[]);
        let mut dead: Vec<String> = shop.dead_values();
        dead.sort();
        (rows.iter().map(|row| row.get(0)).collect(), dead)
    });
}

/// Invariant: the key of what is remembered is (consumer, source, id), and other content is never a repeat.
#[test]
fn an_event_is_a_repeat_only_of_one_with_its_source_its_id_and_its_content() {
    let shop = Shop::open(postgres18(), kafka());
    produce(&shop, "k", "a", &[("ce_id", "1"), ("ce_source", "/shop/web")]);
    produce(&shop, "k", "b", &[("ce_id", "1"), ("ce_source", "/shop/app")]);
    produce(&shop, "k", "a", &[("ce_id", "1"), ("ce_source", "/shop/web")]);
    produce(&shop, "k", "c", &[("ce_id", "1"), ("ce_source", "/shop/web")]);
    produce(&shop, "k", "d", &[("id", "1")]);
    let running = start(&shop, |inbox| inbox.batch(5.try_into().unwrap()));
    wait_for(&shop, &["a", "b", "d"], &["c"]);
    shop.wait_until_committed();
    running.stop();
    let dead = kafka().records(&shop.dead_letter_topic());
    let why = dead[0].header("outboxd.errors.message");
    assert!(why.contains("another event with this id"), "{why}");
}

/// Invariant: a panic in code of the service, or an id that cannot be used, is the failure of that event alone.
#[test]
fn a_panic_in_the_id_function_or_the_handler_is_the_failure_of_that_event() {
    let shop = Shop::open(postgres18(), kafka());
    for (n, value) in ["a", "no id", "empty", "b", "panic", "c"].into_iter().enumerate() {
        produce(&shop, &n.to_string(), value, &[]);
    }
    let ids = IdSource::Function(std::sync::Arc::new(|event| {
        let value = String::from_utf8(event.value.clone().unwrap()).unwrap();
        assert_ne!(value, "no id", "the id function panics");
        Some(if value == "empty" { String::new() } else { value })
    }));
    let running = start(&shop, |inbox| inbox.ids(ids).batch(3.try_into().unwrap()));
    wait_for(&shop, &["a", "b", "c"], &["empty", "no id", "panic"]);
    shop.wait_until_committed();
    running.stop();
}

/// Invariant: what an older version remembered is still a repeat after its tables are brought to this version.
#[test]
fn ids_of_the_first_version_stay_known() {
    let shop = Shop::open(postgres18(), kafka());
    shop.execute(
        "CREATE TABLE processed_messages (consumer text NOT NULL, message_id text NOT NULL, \
         processed_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (consumer, message_id)); \
         CREATE INDEX processed_messages_processed_at ON processed_messages USING brin (processed_at)",
    );
    shop.query("INSERT INTO processed_messages VALUES ($1, '1')", &[&shop.name()]);
    produce(&shop, "k", "old", &[("id", "1")]);
    produce(&shop, "k", "new", &[("id", "2")]);
    let running = start(&shop, |inbox| inbox);
    wait_for(&shop, &["new"], &[]);
    shop.wait_until_committed();
    running.stop();
}

/// Invariant: a table of another program is neither used nor changed.
#[test]
fn a_table_processed_messages_of_another_program_is_left_as_it_is() {
    let shop = Shop::open(postgres18(), kafka());
    shop.execute(
        "CREATE TABLE processed_messages (message_id varchar(255) PRIMARY KEY, processed_at timestamptz)",
    );
    produce(&shop, "k", "a", &[("id", "1")]);
    let running = start(&shop, |inbox| inbox);
    wait_for(&shop, &["a"], &[]);
    running.stop();
    assert_eq!(shop.query("SELECT FROM processed_messages", &[]).len(), 0);
    let other = Shop::open(postgres18(), kafka());
    other.execute("CREATE TABLE inbox_message (id text PRIMARY KEY)");
    let connector = Connector::new(other.url().parse().unwrap(), NoTls);
    let error = other.block_on(connector.create_tables()).unwrap_err();
    assert!(error.to_string().contains("inbox"), "{error}");
}

/// Invariant: the right to CREATE is needed only when there is something to create.
#[test]
fn a_role_that_may_not_create_tables_uses_those_that_exist() {
    let shop = Shop::open(postgres18(), kafka());
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    shop.block_on(connector.create_tables()).unwrap();
    let role = format!("{}_app", shop.name());
    shop.execute(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA public TO {role}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}; \
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}"
    ));
    let mut config: tokio_postgres::Config = shop.url().parse().unwrap();
    config.user(&role);
    produce(&shop, "k", "a", &[("id", "1")]);
    let retry = Retry::new([Duration::from_millis(10)]);
    let running = Running::start(&shop, Connector::new(config, NoTls), |inbox| inbox.retry(retry), apply);
    wait_for(&shop, &["a"], &[]);
    running.stop();
}
