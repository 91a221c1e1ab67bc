//! A handler that ends the inbox's transaction in the middle of a batch: its event alone is given up, and the others are applied once.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use outboxd_inbox::core::Retry;
use outboxd_inbox::event::{Event, SequenceSource};
use outboxd_inbox::postgres::{Connector, HandlerTransaction, SqlxTransaction, Transaction};
use outboxd_inbox::{Dedupe, Delivery, Failure, Inbox};
use tokio_postgres::NoTls;

use crate::running::Running;
use crate::shop::{Shop, payments};
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::wait::{DEADLINE, eventually};

/// Event whose handler ends the transaction.
const CULPRIT: &str = "event-8";
const EVENTS: i64 = 40;

/// Transaction of one of the drivers.
trait Executes: HandlerTransaction {
    fn run(&mut self, sql: String) -> impl Future<Output = Result<(), Failure>> + Send;
}

impl Executes for Transaction {
    async fn run(&mut self, sql: String) -> Result<(), Failure> {
        Ok(self.batch_execute(&sql).await?)
    }
}

impl Executes for SqlxTransaction {
    async fn run(&mut self, sql: String) -> Result<(), Failure> {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut **self).await?;
        Ok(())
    }
}

async fn handle<T: Executes>(
    mut transaction: T,
    events: Vec<Delivery>,
    end: &'static str,
) -> Result<(), Failure> {
    for event in events {
        let apply = format!("INSERT INTO applied (event_id) VALUES ('{}')", event.id());
        transaction.run(apply.clone()).await?;
        if event.id() == CULPRIT {
            transaction.run(end.to_owned()).await.ok();
            // It must not be committed by itself.
            transaction.run(apply).await.ok();
        }
    }
    Ok(())
}

fn connector(shop: &Shop<'_>) -> Connector {
    Connector::new(shop.url().parse().unwrap(), NoTls)
}

fn sqlx_connector(shop: &Shop<'_>) -> Connector<SqlxTransaction> {
    Connector::sqlx(shop.url().parse().unwrap())
}

fn by_id<T: HandlerTransaction>(inbox: Inbox<T>) -> Inbox<T> {
    let most = NonZeroUsize::new(100).unwrap();
    inbox.retry(Retry::new([Duration::from_millis(10)])).batch(most).workers(NonZeroUsize::MIN)
}

fn by_number<T: HandlerTransaction>(inbox: Inbox<T>) -> Inbox<T> {
    let number = |event: &Event| event.json::<serde_json::Value>().ok()?["seq"].as_i64();
    by_id(inbox).dedupe(Dedupe::Sequence(SequenceSource::Function(Arc::new(number)))).first_number(0)
}

/// Whether the handler gets the events of a batch one by one.
#[derive(Clone, Copy)]
enum Gets {
    Each,
    All,
}

#[track_caller]
fn check<T: Executes>(
    connector: fn(&Shop<'_>) -> Connector<T>,
    configure: fn(Inbox<T>) -> Inbox<T>,
    gets: Gets,
    end: &'static str,
) {
    let shop = Shop::open(postgres18(), kafka());
    shop.produce_to(0, &payments(EVENTS, 4));
    let running = match gets {
        Gets::Each => Running::start(&shop, connector(&shop), configure, move |transaction, event| {
            handle(transaction, vec![event], end)
        }),
        Gets::All => {
            Running::start_batches(&shop, connector(&shop), configure, move |transaction, events| {
                handle(transaction, events, end)
            })
        }
    };
    eventually(DEADLINE, "the event is a dead letter", || shop.dead_ids() == [CULPRIT]);
    shop.wait_until_committed();
    running.stop();
    assert_eq!(shop.dead_ids(), [CULPRIT]);
    let rows = shop.query("SELECT event_id, count(*) FROM applied GROUP BY event_id", &[]);
    let applied: BTreeMap<String, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let others = (0..EVENTS).map(|n| format!("event-{n}")).filter(|id| id != CULPRIT);
    assert_eq!(applied, others.map(|id| (id, 1)).collect());
}

#[test]
fn the_end_of_a_transaction_spoils_its_own_event_only() {
    check(connector, by_id, Gets::Each, "ROLLBACK");
    check(connector, by_id, Gets::All, "COMMIT");
    check(connector, by_number, Gets::Each, "ROLLBACK; BEGIN");
}

#[test]
fn the_end_of_a_transaction_spoils_its_own_event_only_with_sqlx() {
    check(sqlx_connector, by_id, Gets::Each, "COMMIT");
    check(sqlx_connector, by_id, Gets::All, "ROLLBACK");
}
