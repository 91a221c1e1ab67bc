use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use outboxd_inbox::event::SequenceSource;
use outboxd_inbox::kafka::{Consumer, DeadLetters};
use outboxd_inbox::postgres::{Connector, Transaction};
use outboxd_inbox::{Dedupe, Delivery, Failure, Inbox};
use rdkafka::ClientConfig;
use tokio::signal::unix::{SignalKind, signal};
use tokio_postgres::NoTls;
use tracing_subscriber::EnvFilter;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// The service's database, as postgres://user@host/database
    #[arg(long)]
    postgres: tokio_postgres::Config,
    /// The bootstrap servers
    #[arg(long)]
    kafka: String,
    /// The topic to read: the account is the record's key, the header `sequence` has the number of its line
    #[arg(long)]
    topic: String,
    /// The consumer's name, which is its group's too
    #[arg(long, default_value = "ledger")]
    consumer: String,
}

const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS ledger (n bigserial PRIMARY KEY, account text NOT NULL, line text NOT NULL)";
const WRITE: &str = "INSERT INTO ledger (account, line) VALUES ($1, $2)";

pub(crate) fn main(arguments: Arguments) -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error, "the ledger has ended");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move {
        terminate.recv().await;
    };

    let (database, connection) = arguments.postgres.connect(NoTls).await?;
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(connection);
    database.batch_execute(TABLE).await?;

    let mut kafka = ClientConfig::new();
    kafka.set("bootstrap.servers", &arguments.kafka).set("group.id", &arguments.consumer);
    let dead_letters = DeadLetters::topic(&kafka, &format!("{}.dlq", arguments.topic))?;
    let connector = Connector::new(arguments.postgres, NoTls);
    connector.create_tables().await?;
    let inbox = Inbox::new(connector, &arguments.consumer, dead_letters)
        .dedupe(Dedupe::Sequence(SequenceSource::Header("sequence".to_owned())));
    inbox.run(Consumer::subscribe(&kafka, &[&arguments.topic])?, write, stop).await?;
    Ok(())
}

/// Writes a line. It is called for each line once, and for those of an account in the order of their numbers. A line
/// that arrives too early waits in the table `inbox_parked` until those before it have arrived.
async fn write(transaction: Transaction, event: Delivery) -> Result<(), Failure> {
    let text = |bytes: &Option<Vec<u8>>| String::from_utf8(bytes.clone().unwrap_or_default());
    let account = text(&event.key).map_err(Failure::poison)?;
    let line = text(&event.value).map_err(Failure::poison)?;
    let write = transaction.prepare_cached(WRITE).await?;
    transaction.execute(&write, &[&account, &line]).await?;
    Ok(())
}
