use std::error::Error;
use std::net::SocketAddr;
use std::process::{ExitCode, abort};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use http::StatusCode;
use outboxd_inbox::http::{IdempotencyLayer, Running};
use outboxd_inbox::idempotency::{Answer, FinishOutcome, Outcome, PostgresStore, Records, RedisStore};
use outboxd_inbox::postgres::Connector;
use outboxd_inbox::redis::Servers;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls};
use tracing_subscriber::EnvFilter;

const TABLES: &str = "CREATE TABLE IF NOT EXISTS payments (id bigserial, customer_id bigint, amount bigint); \
     CREATE TABLE IF NOT EXISTS provider (key text PRIMARY KEY, amount bigint, asked integer NOT NULL DEFAULT 1)";

#[derive(Debug, clap::Parser)]
pub(crate) struct Arguments {
    /// The address to listen at
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The service's database, as postgres://user@host/database
    #[arg(long)]
    postgres: tokio_postgres::Config,
    /// The server for what is done outside the database, as redis://host:port
    #[arg(long)]
    redis: String,
    /// Others take over when there was no sign of life for so long
    #[arg(long, value_parser = humantime::parse_duration, default_value = "30s")]
    lease: Duration,
}

/// Requested payment.
#[derive(Debug, Deserialize)]
struct Payment {
    customer_id: i64,
    amount: i64,
    #[serde(default)]
    fail: Fail,
}

/// Failure of the handler, since this is an example for tests too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Fail {
    #[default]
    No,
    /// The customer has no money.
    Refuse,
    /// Something is away at the first attempt.
    Once,
    Slow,
    /// The process ends in the middle of the first attempt.
    Crash,
}

struct App {
    records: Records<PostgresStore>,
    /// One connection. A service has a pool of them.
    database: Mutex<Client>,
}

pub(crate) fn main(arguments: Arguments) -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::io::stderr).init();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error, "the service has ended");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let (database, connection) = arguments.postgres.connect(NoTls).await?;
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(connection);
    database.batch_execute(TABLES).await?;

    let store = PostgresStore::new(Connector::new(arguments.postgres, NoTls));
    store.create_tables().await?;
    let payments = Records::new(store, "payments").lease(arguments.lease);
    let servers = Servers::one(redis::Client::open(arguments.redis)?);
    let refunds = Records::new(RedisStore::new(servers), "refunds").lease(arguments.lease);

    // Who sends the request. A service takes the account from its authentication.
    let caller = |parts: &http::request::Parts| {
        let name = parts.headers.get("x-account").and_then(|value| value.to_str().ok());
        name.unwrap_or_default().to_owned()
    };
    let app = Arc::new(App { records: payments.clone(), database: Mutex::new(database) });
    let service = Router::new()
        .route("/payments", post(pay).layer(IdempotencyLayer::new(payments, caller)))
        .route("/refunds", post(refund).layer(IdempotencyLayer::new(refunds, caller)))
        .with_state(app);
    let listener = TcpListener::bind(arguments.listen).await?;
    tracing::info!(address = %listener.local_addr()?, "listening");
    axum::serve(listener, service).await?;
    Ok(())
}

/// Stores the answer in the transaction of the effect, since the effect is in the database. Both are committed, or
/// neither.
async fn pay(
    State(app): State<Arc<App>>,
    Extension(running): Extension<Running>,
    body: Bytes,
) -> Result<Response, Failed> {
    let payment = read(&body)?;
    if payment.fail == Fail::Refuse {
        return Err(Failed(StatusCode::PAYMENT_REQUIRED, "there is no money".into()));
    }
    go_wrong(&payment, &running).await?;
    let mut database = app.database.lock().await;
    let transaction = database.transaction().await?;
    let sql = "INSERT INTO payments (customer_id, amount) VALUES ($1, $2) RETURNING id";
    let row = transaction.query_one(sql, &[&payment.customer_id, &payment.amount]).await?;
    let id: i64 = row.try_get(0)?;
    let answer = Answer::new(201, "application/json", format!("{{\"payment\": {id}}}\n"));
    if payment.fail == Fail::Crash && running.claim.attempt == 1 {
        abort();
    }
    let ending = Outcome::Completed(answer.clone());
    match app.records.finish_in(&transaction, &running.claim, &ending).await? {
        FinishOutcome::Written => transaction.commit().await?,
        FinishOutcome::AlreadyFinished | FinishOutcome::Fenced => transaction.rollback().await?,
    }
    Ok(answer.into_response())
}

/// Calls a provider, since the effect is elsewhere. The provider receives a key, the same at each attempt, because the
/// process may end after the effect and before the answer is stored.
async fn refund(
    State(app): State<Arc<App>>,
    Extension(running): Extension<Running>,
    body: Bytes,
) -> Result<Response, Failed> {
    let payment = read(&body)?;
    go_wrong(&payment, &running).await?;
    // In the place of a provider on the net, which knows keys too.
    let sql = "INSERT INTO provider (key, amount) VALUES ($1, $2) \
               ON CONFLICT (key) DO UPDATE SET asked = provider.asked + 1";
    let key = running.claim.key.to_string();
    app.database.lock().await.execute(sql, &[&key, &payment.amount]).await?;
    if payment.fail == Fail::Crash && running.claim.attempt == 1 {
        abort();
    }
    Ok((StatusCode::CREATED, format!("refunded {}\n", payment.amount)).into_response())
}

fn read(body: &[u8]) -> Result<Payment, Failed> {
    serde_json::from_slice(body).map_err(|error| Failed(StatusCode::BAD_REQUEST, error.into()))
}

async fn go_wrong(payment: &Payment, running: &Running) -> Result<(), Failed> {
    match payment.fail {
        Fail::Once if running.claim.attempt == 1 => {
            Err(Failed(StatusCode::SERVICE_UNAVAILABLE, "something is away".into()))
        }
        Fail::Slow => {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Reason why there is no payment.
struct Failed(StatusCode, Box<dyn Error + Send + Sync>);

impl<E: Error + Send + Sync + 'static> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(StatusCode::INTERNAL_SERVER_ERROR, error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (self.0, format!("{}\n", self.1)).into_response()
    }
}
