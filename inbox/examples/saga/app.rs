use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use outboxd_inbox::kafka::{Consumer, DeadLetters};
use outboxd_inbox::outbox::{Message, Outbox};
use outboxd_inbox::postgres::{Connector, Transaction};
use outboxd_inbox::{Delivery, Failure, Inbox};
use rdkafka::ClientConfig;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_postgres::NoTls;
use tokio_postgres::types::Type;
use tracing_subscriber::EnvFilter;

/// The tables of all three services.
const SCHEMA: &str = include_str!("schema.sql");

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// The services' database, as postgres://user@host/database
    #[arg(long)]
    postgres: tokio_postgres::Config,
    /// The bootstrap servers
    #[arg(long)]
    kafka: String,
    /// Prefix of the topics' names
    #[arg(long, default_value = "outbox.event")]
    topics: String,
    /// Which services; all three unless it is given
    #[arg(long = "role", value_enum)]
    roles: Vec<Role>,
    /// A setting of librdkafka's, for the consumers
    #[arg(short = 'X', value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    Order,
    Payment,
    Shipping,
}

/// The value of each event.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    order: String,
    customer: String,
    item: String,
    amount: i64,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a setting is KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(crate) fn main(arguments: Arguments) -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error, "the saga has ended");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let connector = Connector::new(arguments.postgres.clone(), NoTls);
    connector.create_tables().await?;
    create_tables(&arguments.postgres).await?;
    let (stop, stopped) = watch::channel(false);
    let is_played = |role| arguments.roles.is_empty() || arguments.roles.contains(&role);
    let play = |role| {
        let (connector, stopped) = (connector.clone(), stopped.clone());
        let arguments = &arguments;
        async move {
            match is_played(role) {
                true => role.play(connector, arguments, stopped).await,
                false => Ok(()),
            }
        }
    };
    let signalled = async {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.send(true)?;
        Ok(())
    };
    tokio::try_join!(play(Role::Order), play(Role::Payment), play(Role::Shipping), signalled)?;
    Ok(())
}

/// Makes the services' tables, unless they are there.
pub(crate) async fn create_tables(postgres: &tokio_postgres::Config) -> Result<(), Box<dyn Error>> {
    let (client, connection) = postgres.connect(NoTls).await?;
    let create = async move { client.batch_execute(SCHEMA).await };
    tokio::try_join!(create, connection)?;
    Ok(())
}

impl Role {
    async fn play(
        self,
        connector: Connector,
        arguments: &Arguments,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<(), Box<dyn Error>> {
        let (name, reads): (&str, &[&str]) = match self {
            Self::Order => ("orders", &["payment", "shipping"]),
            Self::Payment => ("payments", &["order", "shipping"]),
            Self::Shipping => ("shipping", &["payment"]),
        };
        let topics: Vec<String> = reads.iter().map(|topic| format!("{}.{topic}", arguments.topics)).collect();
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        let group = format!("{}.{name}", arguments.topics);
        let mut kafka = ClientConfig::new();
        kafka.set("bootstrap.servers", &arguments.kafka);
        let inbox = Inbox::new(connector, name, DeadLetters::topic(&kafka, &format!("{group}.dlq"))?);
        kafka.set("group.id", &group);
        for (key, value) in &arguments.settings {
            kafka.set(key, value);
        }
        let consumer = Consumer::subscribe(&kafka, &topics)?;
        let stop = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
        match self {
            Self::Order => inbox.run(consumer, order, stop).await?,
            Self::Payment => inbox.run(consumer, payment, stop).await?,
            Self::Shipping => inbox.run(consumer, shipping, stop).await?,
        }
        Ok(())
    }
}

/// Updates the status of the order. Payment and shipping are two topics, and their events may arrive in any order.
async fn order(transaction: Transaction, event: Delivery) -> Result<(), Failure> {
    let of: Order = event.json().map_err(Failure::poison)?;
    let sql = match event.event_type().as_deref() {
        Some("PaymentTaken") => {
            "UPDATE orders.orders SET status = 'paid' WHERE id = $1 AND status = 'placed'"
        }
        Some("Shipped") => "UPDATE orders.orders SET status = 'completed' WHERE id = $1",
        Some("PaymentRefused" | "PaymentRefunded") => {
            "UPDATE orders.orders SET status = 'cancelled' WHERE id = $1"
        }
        _ => return Ok(()),
    };
    transaction.execute_typed(sql, &[(&of.order, Type::TEXT)]).await?;
    Ok(())
}

/// Takes the money, and gives it back when what it was taken for cannot be shipped.
async fn payment(mut transaction: Transaction, event: Delivery) -> Result<(), Failure> {
    let of: Order = event.json().map_err(Failure::poison)?;
    let what = match event.event_type().as_deref() {
        Some("OrderPlaced") => {
            let take = "WITH taken AS (UPDATE payments.accounts SET balance = balance - $3 \
                            WHERE customer = $2 AND balance >= $3 RETURNING customer) \
                        INSERT INTO payments.payments SELECT $1, customer, $3 FROM taken";
            let parameters = [
                (&of.order as _, Type::TEXT),
                (&of.customer as _, Type::TEXT),
                (&of.amount as _, Type::INT8),
            ];
            let taken = transaction.execute_typed(take, &parameters).await?;
            if taken == 1 { "PaymentTaken" } else { "PaymentRefused" }
        }
        Some("ShippingRefused") => {
            let give_back = "WITH payment AS (DELETE FROM payments.payments WHERE order_id = $1 RETURNING customer, amount) \
                 UPDATE payments.accounts SET balance = balance + amount FROM payment \
                 WHERE accounts.customer = payment.customer";
            transaction.execute_typed(give_back, &[(&of.order, Type::TEXT)]).await?;
            "PaymentRefunded"
        }
        _ => return Ok(()),
    };
    send(&mut transaction, &event, "payments.outbox", "payment", what, &of).await
}

/// Ships what is paid, as long as there is some.
async fn shipping(mut transaction: Transaction, event: Delivery) -> Result<(), Failure> {
    let of: Order = event.json().map_err(Failure::poison)?;
    if event.event_type().as_deref() != Some("PaymentTaken") {
        return Ok(());
    }
    let take = "UPDATE shipping.stock SET count = count - 1 WHERE item = $1 AND count > 0";
    let taken = transaction.execute_typed(take, &[(&of.item, Type::TEXT)]).await?;
    let what = if taken == 1 { "Shipped" } else { "ShippingRefused" };
    send(&mut transaction, &event, "shipping.outbox", "shipping", what, &of).await
}

/// Sends an event of the service's own, in the same transaction.
async fn send(
    transaction: &mut Transaction,
    cause: &Delivery,
    outbox: &str,
    topic: &str,
    what: &str,
    of: &Order,
) -> Result<(), Failure> {
    let message = Message {
        aggregate_type: topic.to_owned(),
        aggregate_id: of.order.clone(),
        event_type: what.to_owned(),
        payload: serde_json::to_value(of)?,
    };
    Outbox::new(outbox).send(transaction, cause, &message).await?;
    Ok(())
}
