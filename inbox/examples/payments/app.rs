use std::error::Error;
use std::num::NonZeroUsize;
use std::process::{ExitCode, abort};
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use outboxd_inbox::core::{AfterDeadLetter, Order, Retry};
use outboxd_inbox::event::{Event, SequenceSource};
use outboxd_inbox::kafka::{Consumer, DeadLetters};
use outboxd_inbox::postgres::{Connector, Transaction};
use outboxd_inbox::retry_topic::RetryTopics;
use outboxd_inbox::{Dedupe, Delivery, Failure, Inbox};
use rdkafka::ClientConfig;
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio_postgres::NoTls;
use tokio_postgres::types::ToSql;
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
    /// Order of events that is preserved
    #[arg(long, value_enum, default_value = "key")]
    order: Ordered,
    /// The most events in one transaction
    #[arg(long, default_value = "1")]
    batch: NonZeroUsize,
    /// The waits before further attempts, or none
    #[arg(long, value_parser = waits, default_value = "200ms,1s,3s")]
    retry: Waits,
    /// The waits after those, in a table, or none
    #[arg(long, value_parser = waits, default_value = "none")]
    park: Waits,
    /// The most events of a partition that wait in the table
    #[arg(long, default_value = "10000")]
    park_max: usize,
    /// The waits after those, in retry topics that keep no order, or none
    #[arg(long, value_parser = waits, default_value = "none")]
    retry_topics: Waits,
    /// The later events of a dead letter's key wait until the key is released
    #[arg(long)]
    key_waits: bool,
    /// Release this key, and leave
    #[arg(long, value_name = "KEY")]
    release: Option<String>,
    /// The topic of the dead letters; <TOPIC>.<CONSUMER>.dlq unless it is given
    #[arg(long)]
    dlq: Option<String>,
    /// Time for which events are remembered
    #[arg(long, value_parser = humantime::parse_duration, default_value = "30days")]
    window: Duration,
    /// A setting of librdkafka's, for the consumer
    #[arg(short = 'X', value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// Way in which a repeat is recognized
    #[arg(long, value_enum, default_value = "ids")]
    dedupe: KnownBy,
    /// The number of each key's first event, with --dedupe sequence
    #[arg(long)]
    first_number: Option<i64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Ordered {
    Key,
    Partition,
    None,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KnownBy {
    Ids,
    Position,
    Sequence,
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

/// Failure of the handler, since this is an example for tests too.
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

/// Waits before attempts.
#[derive(Debug, Clone)]
struct Waits(Vec<Duration>);

fn waits(text: &str) -> Result<Waits, humantime::DurationError> {
    let list = if text == "none" { "" } else { text };
    list.split_terminator(',').map(humantime::parse_duration).collect::<Result<_, _>>().map(Waits)
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
    let mut inbox = Inbox::new(connector, &arguments.consumer, dead_letters)
        .order(match arguments.order {
            Ordered::Key => Order::PerKey,
            Ordered::Partition => Order::PerPartition,
            Ordered::None => Order::None,
        })
        .retry(Retry::new(arguments.retry.0).park(arguments.park.0))
        .after_dead_letter(match arguments.key_waits {
            true => AfterDeadLetter::KeyWaits,
            false => AfterDeadLetter::KeyGoesOn,
        })
        .batch(arguments.batch)
        .dedupe(match arguments.dedupe {
            KnownBy::Ids => Dedupe::Ids,
            KnownBy::Position => Dedupe::Position,
            KnownBy::Sequence => Dedupe::Sequence(SequenceSource::Function(Arc::new(seq))),
        })
        .window(arguments.window);
    inbox = inbox.parked_max(arguments.park_max);
    if !arguments.retry_topics.0.is_empty() {
        inbox = inbox.retry_topics(RetryTopics::new(arguments.retry_topics.0));
    }
    if let Some(number) = arguments.first_number {
        inbox = inbox.first_number(number);
    }
    if let Some(key) = arguments.release {
        let released = inbox.release(key.as_bytes()).await?;
        tracing::info!(released, "dead letters that kept the key waiting");
        return Ok(());
    }

    kafka.set("group.id", &arguments.consumer);
    // So that the partitions of a consumer that is gone are given to the others soon.
    kafka.set("session.timeout.ms", "10000");
    for (key, value) in arguments.settings {
        kafka.set(key, value);
    }
    let topics = inbox.topics(&[&arguments.topic]);
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    let consumer = Consumer::subscribe(&kafka, &topics)?;
    inbox.run(consumer, pay, stop).await?;
    Ok(())
}

/// Returns the number of an event.
fn seq(event: &Event) -> Option<i64> {
    event.json::<Payment>().ok().map(|payment| payment.seq)
}

/// A parameter of a statement.
type Value<'v> = &'v (dyn ToSql + Sync);

const SPEND: &str = "UPDATE customers SET lifetime_value = lifetime_value + $1::bigint WHERE id = $2::bigint";
const APPLY: &str = "INSERT INTO applied (event_id, customer_id, seq) VALUES ($1, $2, $3)";

/// Applies a payment. Both statements are part of the transaction in which the event is remembered as done.
async fn pay(transaction: Transaction, event: Delivery) -> Result<(), Failure> {
    let payment: Payment = event.json().map_err(Failure::poison)?;
    go_wrong(payment.fail, event.attempt()).await?;
    let (spend, apply) = (transaction.prepare_cached(SPEND).await?, transaction.prepare_cached(APPLY).await?);
    let id = event.id();
    let spent: [Value<'_>; 2] = [&payment.amount, &payment.customer_id];
    let applied: [Value<'_>; 3] = [&id, &payment.customer_id, &payment.seq];
    tokio::try_join!(transaction.execute(&spend, &spent), transaction.execute(&apply, &applied))?;
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
