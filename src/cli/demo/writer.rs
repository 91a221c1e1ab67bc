//! The shop's application: changes an order and writes its event in the same transaction.

use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::names::Names;
use super::screen::Screen;
use super::shop::{Event, Fate, Order, Shop, Transaction, money};
use super::summary::Book;
use crate::postgres::{Error, Sql};

/// Writer that runs until it is stopped; a transaction that was begun is ended first.
pub(super) struct Writer {
    pub(super) sql: Sql,
    pub(super) statements: Statements,
    pub(super) shop: Shop,
    pub(super) book: Book,
    pub(super) screen: Screen,
}

/// The application's SQL.
#[derive(Debug, Clone)]
pub(super) struct Statements {
    insert_order: String,
    update_order: String,
    insert_event: String,
}

impl Statements {
    pub(super) fn new(names: &Names) -> Self {
        let schema = names.schema;
        Self {
            insert_order: format!(
                "INSERT INTO {schema}.orders (id, customer, total, status) VALUES ($1, $2, $3::text::numeric, $4)"
            ),
            update_order: format!("UPDATE {schema}.orders SET status = $2, changed = now() WHERE id = $1"),
            insert_event: format!(
                "INSERT INTO {schema}.outbox (aggregate_type, aggregate_id, event_type, payload)
                 VALUES ('order', $1, $2, $3::text::jsonb) RETURNING id::text"
            ),
        }
    }
}

impl Writer {
    /// Writes transactions at this rate until it is stopped.
    ///
    /// # Errors
    ///
    /// When PostgreSQL refuses a statement or is down.
    pub(super) async fn run(mut self, rate: u32, stop: CancellationToken) -> Result<(), Error> {
        let mut ticks = interval(Duration::from_secs(1).checked_div(rate).unwrap_or(Duration::from_secs(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                _ = ticks.tick() => {}
            }
            let transaction = self.shop.next();
            self.write(&transaction).await?;
        }
    }

    async fn write(&self, transaction: &Transaction) -> Result<(), Error> {
        self.sql.execute("BEGIN", "BEGIN").await?;
        self.write_order(&transaction.order, transaction.is_new).await?;
        let mut ids = Vec::with_capacity(transaction.events.len());
        for event in &transaction.events {
            ids.push(self.write_event(&transaction.order, event).await?);
        }
        match transaction.fate {
            Fate::Commit => self.commit(&ids).await,
            Fate::RollBack(reason) => self.roll_back(transaction, ids, reason).await,
        }
    }

    async fn commit(&self, ids: &[String]) -> Result<(), Error> {
        self.book.commits(ids, Instant::now());
        let outcome = self.sql.execute("COMMIT", "COMMIT").await;
        match outcome {
            Ok(()) => self.book.committed(ids.len()),
            Err(_) => self.book.uncertain(ids),
        }
        outcome
    }

    async fn roll_back(
        &self,
        transaction: &Transaction,
        ids: Vec<String>,
        reason: &str,
    ) -> Result<(), Error> {
        // Before the statement: from here on none of them may arrive.
        self.book.rolled_back(ids);
        self.sql.execute("ROLLBACK", "ROLLBACK").await?;
        let event_types: Vec<_> = transaction.events.iter().map(|event| event.event_type).collect();
        self.screen.rolled_back(&event_types.join(" + "), transaction.order.id, reason);
        Ok(())
    }

    async fn write_order(&self, order: &Order, is_new: bool) -> Result<(), Error> {
        let (id, status) = (order.id, order.status.as_str());
        let Statements { insert_order, update_order, .. } = &self.statements;
        if is_new {
            let total = money(order.total_cents);
            self.sql
                .query("INSERT INTO orders", insert_order, &[&id, &order.customer, &total, &status])
                .await?;
        } else {
            self.sql.query("UPDATE orders", update_order, &[&id, &status]).await?;
        }
        Ok(())
    }

    async fn write_event(&self, order: &Order, event: &Event) -> Result<String, Error> {
        const DOING: &str = "INSERT INTO outbox";
        let (key, payload) = (order.id.to_string(), event.payload.to_string());
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&key, &event.event_type, &payload];
        let rows = self.sql.query(DOING, &self.statements.insert_event, &values).await?;
        let id = rows.first().and_then(|row| row.try_get(0).ok());
        id.ok_or_else(|| Error::Unexpected { message: "answer".to_owned(), doing: DOING })
    }
}
