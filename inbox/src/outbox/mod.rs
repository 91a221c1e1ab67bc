//! Outbox of the service: events of its own, written in the transaction of the event that caused them.
//!
//! The table is that of outboxd or of Debezium, with a column `headers`. With `table.fields.additional.placement=headers:header`
//! the relay sends that column too, and the next service finds the correlation id and the trace in it. See
//! [`crate::event::Lineage`].

use serde_json::Value;
use tokio_postgres::types::Type;

use crate::Delivery;
use crate::event::Lineage;
use crate::postgres::{self, HandlerTransaction, Parameter};

/// Event to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Type of the aggregate, which names the topic: `order` is sent to `outbox.event.order`, unless the relay is configured
    /// otherwise.
    pub aggregate_type: String,
    /// Id of the aggregate, which is the key of the record: the events of one aggregate stay in order.
    pub aggregate_id: String,
    /// Type of the event.
    pub event_type: String,
    /// Value of the record.
    pub payload: Value,
}

/// Outbox table of the service.
#[derive(Debug, Clone)]
pub struct Outbox {
    insert: String,
}

impl Outbox {
    /// Uses a table with outboxd's columns (`aggregate_type`, `aggregate_id`, `event_type`), named as `outbox` or `schema.outbox`.
    #[must_use]
    pub fn new(table: &str) -> Self {
        Self::with_columns(table, ["aggregate_type", "aggregate_id", "event_type"])
    }

    /// Uses a table with Debezium's columns (`aggregatetype`, `aggregateid`, `type`).
    #[must_use]
    pub fn debezium(table: &str) -> Self {
        Self::with_columns(table, ["aggregatetype", "aggregateid", "type"])
    }

    fn with_columns(table: &str, columns: [&str; 3]) -> Self {
        let table: Vec<String> = table.split('.').map(quoted).collect();
        let insert = format!(
            "INSERT INTO {} (id, {}, payload, headers) \
             VALUES (gen_random_uuid(), $1, $2, $3, $4::text::jsonb, $5::text::jsonb)",
            table.join("."),
            columns.map(quoted).join(", ")
        );
        Self { insert }
    }

    /// Writes an event that `cause` has caused to the outbox. It is committed with the effect of `cause`, or not at all.
    ///
    /// # Errors
    ///
    /// Fails if PostgreSQL refuses the row. The transaction cannot be used any more then.
    pub async fn send<T: HandlerTransaction>(
        &self,
        transaction: &mut T,
        cause: &Delivery,
        message: &Message,
    ) -> Result<(), crate::Error> {
        let lineage = Lineage::of(cause, cause.id(), cause.span()).to_json().to_string();
        let payload = message.payload.to_string();
        let parameters: [Parameter<'_>; 5] = [
            (&message.aggregate_type, Type::TEXT),
            (&message.aggregate_id, Type::TEXT),
            (&message.event_type, Type::TEXT),
            (&payload, Type::TEXT),
            (&lineage, Type::TEXT),
        ];
        let written = transaction.write(&self.insert, &parameters).await;
        Ok(written.map_err(postgres::Error::of("write an event to the outbox"))?)
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        let insert = Outbox::debezium("shop.out\"box").insert;
        assert!(insert.starts_with(
            "INSERT INTO \"shop\".\"out\"\"box\" (id, \"aggregatetype\", \"aggregateid\", \"type\", payload, headers)"
        ));
    }
}
