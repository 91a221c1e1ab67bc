//! Paths of the status port.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::health::{self, Health};
use crate::telemetry::{History, Metrics, Overview, Status};

const INDEX: &str = "outboxd

/          how it is, for a person
/status    the same as JSON
/livez     whether the relay's loop turns
/readyz    whether events flow, and what stops them
/startupz  whether it has begun once
/health    the same in Kafka Connect's words
/metrics   for Prometheus
";

const JSON: &str = "application/json; charset=UTF-8";
const SVG: &str = "image/svg+xml";
const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Sources of the pages.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) status: Status,
    pub(super) metrics: Metrics,
    pub(super) history: Arc<Mutex<History>>,
}

impl Shown {
    /// Remembers how it is now.
    pub(super) fn remember(&self) {
        self.history().sample(&self.status.snapshot(), self.metrics.topics(), Instant::now());
    }

    fn overview(&self) -> Overview {
        let (now, clock) = (Instant::now(), SystemTime::now());
        Overview::new(&self.status.snapshot(), &self.metrics, &self.history(), now, clock)
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the router with every path. Axum answers HEAD as GET without the body, and any other method with
/// 405.
pub(super) fn router(shown: Shown) -> Router {
    Router::new()
        .route("/", get(status_page))
        .route("/favicon.svg", get(async || page(StatusCode::OK, SVG, super::page::ICON.to_owned())))
        .route("/favicon.ico", get(async || page(StatusCode::OK, SVG, super::page::ICON.to_owned())))
        .route("/status", get(overview))
        .route("/livez", get(async |State(shown): State<Shown>| live(&shown, "outboxd")))
        .route("/q/health/live", get(async |State(shown): State<Shown>| live(&shown, "debezium")))
        .route("/readyz", get(ready))
        .route("/q/health/ready", get(ready))
        .route("/q/health", get(ready))
        .route("/startupz", get(started))
        .route("/q/health/started", get(started))
        .route("/health", get(connect_worker))
        .route("/metrics", get(metrics_page))
        .route("/q/metrics", get(metrics_page))
        .fallback(async || page(StatusCode::NOT_FOUND, TEXT, INDEX.to_owned()))
        .with_state(shown)
}

async fn status_page(State(shown): State<Shown>) -> Response {
    let mut response = page(StatusCode::OK, HTML, super::page::page(&shown.overview()));
    let policy = HeaderValue::from_static(super::page::CONTENT_SECURITY_POLICY);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

async fn overview(State(shown): State<Shown>) -> Response {
    match serde_json::to_string(&shown.overview()) {
        Ok(text) => page(StatusCode::OK, JSON, text),
        Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
    }
}

fn live(shown: &Shown, name: &str) -> Response {
    probe(health::live(&shown.status.snapshot(), name, Instant::now()))
}

async fn ready(State(shown): State<Shown>) -> Response {
    probe(health::ready(&shown.status.snapshot(), Instant::now()))
}

async fn started(State(shown): State<Shown>) -> Response {
    probe(health::started(&shown.status.snapshot()))
}

async fn connect_worker(State(shown): State<Shown>) -> Response {
    let (code, body) = health::connect_worker(&shown.status.snapshot(), Instant::now());
    page(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), JSON, body.to_string())
}

async fn metrics_page(State(shown): State<Shown>, headers: HeaderMap) -> Response {
    shown.metrics.observe(&shown.status.snapshot(), SystemTime::now());
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    // A client without a preference, or with `*/*`, gets OpenMetrics.
    let (form, text) = if accept.contains("text/plain") && !accept.contains("application/openmetrics-text") {
        (CLASSIC, shown.metrics.encode_classic())
    } else {
        (OPEN_METRICS, shown.metrics.encode())
    };
    match text {
        Ok(text) => page(StatusCode::OK, form, text),
        Err(error) => page(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
    }
}

fn probe(health: Health) -> Response {
    let code = if health.up { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    page(code, JSON, health.body.to_string())
}

fn page(code: StatusCode, content_type: &'static str, body: String) -> Response {
    (code, [(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "no-store")], body).into_response()
}
