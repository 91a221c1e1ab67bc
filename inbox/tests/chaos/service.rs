//! The service: a process whose handler has the habit that its event names.

use std::process::abort;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use outboxd_inbox::core::{AfterDeadLetter, Options, Order, Retry};
use outboxd_inbox::event::{Event, SequenceSource};
use outboxd_inbox::kafka::{Consumer, DeadLetters};
use outboxd_inbox::postgres::{Connector, HandlerTransaction, SqlxTransaction, Transaction};
use outboxd_inbox::{Dedupe, Delivery, Failure, Inbox};
use rdkafka::ClientConfig;
use serde::Deserialize;
use sqlx::AssertSqlSafe;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;
use tracing_subscriber::EnvFilter;

use crate::habit::{Habit, *};
use crate::planted::Planted;
use crate::process;

#[derive(Debug, Clone, Parser)]
struct Arguments {
    #[arg(long)]
    postgres: String,
    #[arg(long)]
    kafka: String,
    #[arg(long)]
    topic: String,
    #[arg(long)]
    consumer: String,
    #[arg(long)]
    dlq: String,
    /// ids, position or sequence
    #[arg(long)]
    dedupe: String,
    #[arg(long)]
    batch: usize,
    /// Waits before further attempts and in the table, in milliseconds
    #[arg(long, value_delimiter = ',')]
    retry: Vec<u64>,
    #[arg(long, value_delimiter = ',')]
    park: Vec<u64>,
    #[arg(long)]
    sqlx: bool,
    #[arg(long)]
    key_waits: bool,
    #[arg(long)]
    planted: Option<String>,
}

/// The value of an event.
#[derive(Debug, Clone, Deserialize)]
struct Value {
    number: i64,
    amount: i64,
    habit: String,
}

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Statements in the transaction that a handler is given, by either driver.
trait Statements: HandlerTransaction {
    fn run(&mut self, sql: &str) -> impl Future<Output = Result<(), Error>> + Send;
    /// Reads with a statement that is prepared once for each connection.
    fn read_cached(&mut self, sql: &'static str) -> impl Future<Output = Result<(), Error>> + Send;
    fn is_true(&mut self, sql: &str) -> impl Future<Output = Result<bool, Error>> + Send;
    /// Runs a statement that fails, in a savepoint that is undone.
    fn fail_in_savepoint(&mut self) -> impl Future<Output = Result<(), Error>> + Send;
}

const FAILS: &str = "INSERT INTO a_table_that_does_not_exist VALUES (1)";

impl Statements for Transaction {
    async fn run(&mut self, sql: &str) -> Result<(), Error> {
        Ok(self.batch_execute(sql).await?)
    }

    async fn read_cached(&mut self, sql: &'static str) -> Result<(), Error> {
        let statement = self.prepare_cached(sql).await?;
        self.query(&statement, &[]).await?;
        Ok(())
    }

    async fn is_true(&mut self, sql: &str) -> Result<bool, Error> {
        Ok(self.query_one(sql, &[]).await?.get(0))
    }

    async fn fail_in_savepoint(&mut self) -> Result<(), Error> {
        let savepoint = self.savepoint().await?;
        savepoint.batch_execute(FAILS).await.unwrap_err();
        Ok(savepoint.roll_back().await?)
    }
}

impl Statements for SqlxTransaction {
    async fn run(&mut self, sql: &str) -> Result<(), Error> {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut **self).await?;
        Ok(())
    }

    async fn read_cached(&mut self, sql: &'static str) -> Result<(), Error> {
        sqlx::query(sql).fetch_all(&mut **self).await?;
        Ok(())
    }

    async fn is_true(&mut self, sql: &str) -> Result<bool, Error> {
        Ok(sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut **self).await?)
    }

    async fn fail_in_savepoint(&mut self) -> Result<(), Error> {
        use sqlx::Connection as _;
        let mut nested = self.begin().await?;
        sqlx::query(FAILS).execute(&mut *nested).await.unwrap_err();
        Ok(nested.rollback().await?)
    }
}

/// The error of all handlers in an outage.
pub(crate) const AWAY: &str = "the other service is away";

/// Not a test of its own: the process of the service.
#[test]
fn service_process() {
    let Some(arguments) = process::arguments() else { return };
    let arguments = Arguments::parse_from(arguments);
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let url = arguments.postgres.clone();
    if arguments.sqlx {
        runtime.block_on(serve(Connector::sqlx(url.parse().unwrap()), arguments));
    } else {
        runtime.block_on(serve(Connector::new(url.parse().unwrap(), NoTls), arguments));
    }
}

async fn serve<T: Statements>(connector: Connector<T>, arguments: Arguments) {
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    let mut kafka = ClientConfig::new();
    kafka.set("bootstrap.servers", &arguments.kafka).set("reconnect.backoff.max.ms", "500");
    let dead_letters = DeadLetters::topic(&kafka, &arguments.dlq).unwrap();
    // The database may be away just now, as it may be for a service.
    while let Err(error) = connector.create_tables().await {
        eprintln!("no tables yet: {error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let waits = |list: &[u64]| list.iter().copied().map(Duration::from_millis).collect::<Vec<_>>();
    let options = Options {
        order: Order::PerKey,
        retry: Retry::new(waits(&arguments.retry)).park(waits(&arguments.park)),
        after_dead_letter: if arguments.key_waits {
            AfterDeadLetter::KeyWaits
        } else {
            AfterDeadLetter::KeyGoesOn
        },
        batch: arguments.batch.try_into().unwrap(),
        handler_within: Duration::from_secs(3),
        release_poll: Duration::from_secs(1),
        fenced_pause: Duration::from_secs(1),
        ..Options::default()
    };
    let planted = arguments.planted.as_deref().and_then(Planted::of);
    let options = planted.map_or(options.clone(), |planted| planted.options(options));
    let dedupe = match &*arguments.dedupe {
        "sequence" => Dedupe::Sequence(SequenceSource::Function(Arc::new(|event: &Event| {
            event.json::<Value>().ok().map(|value| value.number)
        }))),
        "position" => Dedupe::Position,
        _ => Dedupe::Ids,
    };
    let inbox = Inbox::new(connector, &arguments.consumer, dead_letters)
        .dedupe(dedupe)
        .first_number(0)
        .options(options);
    kafka.set("group.id", &arguments.consumer).set("auto.offset.reset", "earliest");
    kafka.set("session.timeout.ms", "2000").set("heartbeat.interval.ms", "400");
    let consumer = Consumer::subscribe(&kafka, &[&arguments.topic]).unwrap();
    let url = arguments.postgres;
    let handler = move |transaction: T, event: Delivery| handle(transaction, event, url.clone(), planted);
    inbox
        .run(consumer, handler, async move {
            terminate.recv().await;
        })
        .await
        .unwrap();
}

async fn handle<T: Statements>(
    mut transaction: T,
    event: Delivery,
    url: String,
    planted: Option<Planted>,
) -> Result<(), Failure> {
    let value: Value = event.json().map_err(Failure::poison)?;
    let habit = Habit::of(&value.habit).ok_or("no such habit")?;
    transaction.read_cached("SELECT * FROM settings").await?;
    if transaction.is_true("SELECT EXISTS (SELECT FROM outage)").await? {
        return Err(Failure::retry(AWAY));
    }
    go_wrong_before(&mut transaction, habit, &event).await?;
    let key = String::from_utf8_lossy(event.key.as_deref().unwrap_or_default()).into_owned();
    let write = Write { id: event.id().to_owned(), key, number: value.number, amount: value.amount };
    match planted {
        Some(planted) if value.number % 10 == 3 => planted.write(&mut transaction, &url, write).await?,
        _ => transaction.run(&write.sql()).await?,
    }
    go_wrong_after(&mut transaction, habit).await
}

async fn go_wrong_before<T: Statements>(
    transaction: &mut T,
    habit: Habit,
    event: &Delivery,
) -> Result<(), Failure> {
    match habit {
        FailsOnce if event.attempt() == 1 => Err(Failure::retry("the event says that it fails once")),
        FailsAlways => Err(Failure::retry("the event says that it always fails")),
        Poison => Err(Failure::poison("the event says that it is poison")),
        Panics => panic!("the event says that its handler panics"),
        Hangs => std::future::pending().await,
        Slow => {
            tokio::time::sleep(Duration::from_millis(200)).await;
            Ok(())
        }
        Savepoint => Ok(transaction.fail_in_savepoint().await?),
        Deadlock => {
            // Both rows are hot, and the next event takes them the other way round.
            let (one, other) = if fastrand::bool() { (1, 2) } else { (2, 1) };
            transaction.run(&format!("UPDATE hot SET v = v + 1 WHERE k = {one}")).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(transaction.run(&format!("UPDATE hot SET v = v + 1 WHERE k = {other}")).await?)
        }
        Commits => Ok(transaction.run("COMMIT; BEGIN").await.or_else(|_| Ok::<(), Error>(()))?),
        RollsBack => Ok(transaction.run("ROLLBACK; BEGIN").await?),
        Blocked => {
            let is_allowed = format!("SELECT EXISTS (SELECT FROM allowed WHERE id = '{}')", event.id());
            match transaction.is_true(&is_allowed).await? {
                true => Ok(()),
                false => Err(Failure::retry("an operator has not allowed the event")),
            }
        }
        Plain | FailsOnce | EndsProcess | IgnoresError => Ok(()),
    }
}

async fn go_wrong_after<T: Statements>(transaction: &mut T, habit: Habit) -> Result<(), Failure> {
    match habit {
        IgnoresError => {
            transaction.run(FAILS).await.unwrap_err();
        }
        // Values of a sequence are not rolled back.
        EndsProcess if transaction.is_true("SELECT nextval('ends') = 1").await? => {
            abort();
        }
        _ => {}
    }
    Ok(())
}

/// The effect of an event.
struct Write {
    id: String,
    key: String,
    number: i64,
    amount: i64,
}

impl Write {
    fn sql(&self) -> String {
        format!("{}; {}", self.effect(), self.balance())
    }

    fn effect(&self) -> String {
        let Self { id, key, number, amount } = self;
        format!("INSERT INTO effects (id, k, number, amount) VALUES ('{id}', '{key}', {number}, {amount})")
    }

    fn balance(&self) -> String {
        let Self { key, amount, .. } = self;
        format!(
            "INSERT INTO balances VALUES ('{key}', {amount}) ON CONFLICT (k) DO UPDATE SET v = balances.v + {amount}"
        )
    }
}

impl Planted {
    /// Writes the effect in another way than a handler should.
    async fn write<T: Statements>(
        self,
        transaction: &mut T,
        url: &str,
        mut write: Write,
    ) -> Result<(), Failure> {
        match self {
            Self::NothingWritten => return Ok(()),
            Self::EffectBesideTransaction => {
                beside(url, &write.sql()).await?;
                return Err(Failure::retry("after the effect"));
            }
            Self::BalanceBesideTransaction => beside(url, &write.balance()).await?,
            Self::OtherAmount => write.amount += 1,
            _ => {}
        }
        Ok(transaction.run(&write.sql()).await?)
    }
}

/// Runs a statement on a connection of its own.
async fn beside(url: &str, sql: &str) -> Result<(), Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    Ok(client.batch_execute(sql).await?)
}
