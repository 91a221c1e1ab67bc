use std::error::Error;
use std::num::NonZeroUsize;
use std::process::{ExitCode, abort};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use outboxd_inbox::core::{Order, Retry};
use outboxd_inbox::kafka::{Consumer, DeadLetters};
use outboxd_inbox::postgres::{Connector, Transaction};
use outboxd_inbox::{Delivery, Failure, Inbox};
use rdkafka::ClientConfig;
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio_postgres::NoTls;
use tokio_postgres::types::Type;
use tracing_subscriber::EnvFilter;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// The service's database, as postgres://user@host/database
    #[arg(long)]
    postgres: tokio_postgres::Config,
    /// The bootstrap servers
    #[arg(long)]
    kafka: String,
    /// The topic to read
    #[arg(long)]
    topic: String,
    /// The consumer's name, which is its group's too
    #[arg(long)]
    consumer: String,
    /// What is kept in order
    #[arg(long, value_enum, default_value = "key")]
    order: Ordered,
    /// The most events in one transaction
    #[arg(long, default_value = "1")]
    batch: NonZeroUsize,
    /// The waits before further attempts
    #[arg(long, value_delimiter = ',', value_parser = humantime::parse_duration, default_value = "200ms,1s,3s")]
    retry: Vec<Duration>,
    /// The topic of the dead letters; <TOPIC>.<CONSUMER>.dlq unless it is given
    #[arg(long)]
    dlq: Option<String>,
    /// How long events are remembered
    #[arg(long, value_parser = humantime::parse_duration, default_value = "30days")]
    window: Duration,
    /// A setting of librdkafka's, for the consumer
    #[arg(short = 'X', value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// How a repeat is known
    #[arg(long, value_enum, default_value = "ids")]
    dedupe: Dedupe,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Ordered {
    Key,
    Partition,
    None,
}

/// By position and by sequence are not there yet.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Dedupe {
    Ids,
}

/// The value of an event.
#[derive(Debug, Deserialize)]
struct Payment {
    customer_id: i64,
    amount: i64,
    seq: i64,
    #[serde(default)]
    fail: Fail,
}

/// How the handler is to go wrong, since this is an example for tests too.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Fail {
    #[default]
    No,
    Once,
    Always,
    Slow,
    Crash,
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
            tracing::error!(error, "payments has ended");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };

    let mut kafka = ClientConfig::new();
    kafka.set("bootstrap.servers", &arguments.kafka);
    let dlq = arguments.dlq.unwrap_or_else(|| format!("{}.{}.dlq", arguments.topic, arguments.consumer));
    let dead_letters = DeadLetters::topic(&kafka, &dlq)?;

    let connector = Connector::new(arguments.postgres, NoTls);
    connector.create_tables().await?;
    let inbox = Inbox::new(connector, &arguments.consumer, dead_letters)
        .order(match arguments.order {
            Ordered::Key => Order::PerKey,
            Ordered::Partition => Order::PerPartition,
            Ordered::None => Order::None,
        })
        .retry(Retry::new(arguments.retry))
        .batch(arguments.batch)
        .window(arguments.window);
    let Dedupe::Ids = arguments.dedupe;

    kafka.set("group.id", &arguments.consumer);
    kafka.set("partition.assignment.strategy", "cooperative-sticky");
    // So that the partitions of a consumer that is gone are given to the others soon.
    kafka.set("session.timeout.ms", "10000");
    for (key, value) in arguments.settings {
        kafka.set(key, value);
    }
    let consumer = Consumer::subscribe(&kafka, &[&arguments.topic])?;
    inbox.run(consumer, pay, stop).await?;
    Ok(())
}

/// Both statements are part of the transaction in which the event is remembered as done.
async fn pay(transaction: Transaction, event: Delivery) -> Result<(), Failure> {
    let payment: Payment = event.json().map_err(Failure::poison)?;
    go_wrong(payment.fail, event.attempt()).await?;
    let id = event.id();
    let spent = [(&payment.amount as _, Type::INT8), (&payment.customer_id as _, Type::INT8)];
    let applied =
        [(&id as _, Type::TEXT), (&payment.customer_id as _, Type::INT8), (&payment.seq as _, Type::INT8)];
    tokio::try_join!(
        transaction.execute_typed(
            "UPDATE customers SET lifetime_value = lifetime_value + $1 WHERE id = $2",
            &spent,
        ),
        transaction.execute_typed(
            "INSERT INTO applied (event_id, customer_id, seq) VALUES ($1, $2, $3)",
            &applied,
        ),
    )?;
    Ok(())
}

async fn go_wrong(fail: Fail, attempt: u32) -> Result<(), Failure> {
    match fail {
        Fail::Once if attempt == 1 => Err(Failure::retry("the event says that it fails once")),
        Fail::Always => Err(Failure::retry("the event says that it always fails")),
        Fail::Crash => abort(),
        Fail::Slow => {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(())
        }
        Fail::No | Fail::Once => Ok(()),
    }
}
