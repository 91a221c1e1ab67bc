//! Service that answers repeats of a request.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Method, Request, Response};
use http_body::Body;
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use super::body::{self, NoBody};
use super::header;
use super::layer::Shared;
use super::problem::Problem;
use crate::idempotency::{Answer, Attempt, Claim, Fingerprint, FinishOutcome, Key, Outcome, Start, Store};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Header of the answer to a repeated request, with the value `true`.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Pause between two attempts to store the outcome of a request.
const FINISH_PAUSE: Duration = Duration::from_millis(200);

/// Claim of the current request; a handler finds it in the extensions of the request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Running {
    /// Claim to finish in the transaction of the effect, or to hand to the component that performs the effect.
    pub claim: Claim,
    /// Token that is cancelled before another request can take over. The handler is dropped then; work that it has started elsewhere is
    /// not.
    pub lost: CancellationToken,
}

/// Service that [`IdempotencyLayer`](super::IdempotencyLayer) creates.
pub struct IdempotencyService<S, Inner> {
    pub(super) inner: Inner,
    pub(super) shared: Arc<Shared<S>>,
}

impl<S, Inner, B, R> Service<Request<B>> for IdempotencyService<S, Inner>
where
    S: Store,
    Inner: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    Inner::Future: Send,
    Inner::Error: Send,
    B: Body + From<Bytes> + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    R: Body + From<Bytes> + Send + 'static,
    R::Data: Send,
    R::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<R>;
    type Error = Inner::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, Inner::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Inner::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // `self.inner` is the service that was polled ready; the clone has to be polled first.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let key = match key(&shared, &request) {
                Ok(Some(key)) => key,
                Ok(None) => return inner.call(request).await,
                Err(problem) => return Ok(problem.answer().into_response()),
            };
            let detached = shared.detached.clone();
            let done = run(shared, inner, key, request);
            match detached {
                None => done.await,
                // `None`: the task has panicked, and it is unknown how far the handler got.
                Some(detached) => {
                    let done = detached.run(done).await;
                    done.unwrap_or_else(|| Ok(Problem::AnswerLost.answer().into_response()))
                }
            }
        })
    }
}

/// Returns the key of a request, or `None` if the request needs none.
fn key<S, B>(shared: &Shared<S>, request: &Request<B>) -> Result<Option<String>, Problem> {
    if ![Method::POST, Method::PATCH].contains(request.method()) {
        return Ok(None);
    }
    let values = request.headers().get_all(IDEMPOTENCY_KEY);
    match header::key(values.iter().map(HeaderValue::as_bytes)) {
        Ok(None) if shared.required => Err(Problem::KeyMissing),
        Ok(key) => Ok(key),
        Err(malformed) => Err(Problem::KeyMalformed(malformed)),
    }
}

/// Passes a request with a key to the service, unless it is a repeat.
async fn run<S, Inner, B, R>(
    shared: Arc<Shared<S>>,
    mut inner: Inner,
    key: String,
    request: Request<B>,
) -> Result<Response<R>, Inner::Error>
where
    S: Store,
    Inner: Service<Request<B>, Response = Response<R>>,
    B: Body + From<Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    R: Body + From<Bytes>,
    R::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (mut request, attempt) = match admit(&shared, key, request).await {
        Admitted::Refused(problem) => return Ok(problem.answer().into_response()),
        Admitted::Replayed(answer) => {
            let mut response = answer.into_response();
            response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
            return Ok(response);
        }
        Admitted::Run(request, attempt) => (*request, attempt),
    };
    request.extensions_mut().insert(Running { claim: attempt.claim().clone(), lost: attempt.lost().clone() });
    match attempt.guard(inner.call(request)).await {
        Ok(Ok(response)) => Ok(finish(&shared, &attempt, response).await),
        Ok(Err(error)) => {
            report(&attempt, &Outcome::Retryable).await;
            Err(error)
        }
        Err(_lost) => Ok(Problem::TakenOver.answer().into_response()),
    }
}

/// Decision about a request with a key.
enum Admitted<S: Store, B> {
    Refused(Problem),
    /// Answer to the first request; the service is not called.
    Replayed(Answer),
    Run(Box<Request<B>>, Attempt<S>),
}

impl<S: Store, B> From<Problem> for Admitted<S, B> {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

async fn admit<S, B>(shared: &Shared<S>, key: String, request: Request<B>) -> Admitted<S, B>
where
    S: Store,
    B: Body + From<Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let scope = match (shared.caller)(&parts) {
        caller if caller.is_empty() => shared.records.scope().to_owned(),
        caller => format!("{} {caller}", shared.records.scope()),
    };
    let Ok(key) = Key::new(scope, key) else { return Problem::CallerUnusable.into() };
    let body = match body::whole(body, shared.request_bytes_max).await {
        Ok(body) => body,
        Err(NoBody::TooLong) => return Problem::BodyTooLong { max: shared.request_bytes_max }.into(),
        Err(NoBody::Unreadable) => return Problem::BodyUnreadable.into(),
    };
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let fingerprint = Fingerprint::of([parts.method.as_str().as_bytes(), path.as_bytes(), &body]);
    match shared.records.begin_of(key, fingerprint).await {
        Ok(Start::Run(attempt)) => {
            Admitted::Run(Box::new(Request::from_parts(parts, B::from(body))), attempt)
        }
        Ok(Start::Completed(answer) | Start::Failed(answer)) => Admitted::Replayed(answer),
        Ok(Start::InFlight { left }) => Problem::InFlight { left }.into(),
        Ok(Start::Mismatch) => Problem::OtherRequest.into(),
        Err(error) => {
            tracing::warn!(%error, "a request was refused: it cannot be remembered");
            Problem::StoreAway.into()
        }
    }
}

/// Stores the answer, and returns the response for the client.
async fn finish<S, R>(shared: &Shared<S>, attempt: &Attempt<S>, response: Response<R>) -> Response<R>
where
    S: Store,
    R: Body + From<Bytes>,
    R::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = response.into_parts();
    let max = shared.answer_bytes_max;
    let (ending, response) = match body::whole(body, max).await {
        Ok(body) => (ending(shared, body::answer(&parts, &body)), Response::from_parts(parts, R::from(body))),
        Err(NoBody::TooLong) => {
            let answer = Problem::AnswerTooLong { max }.answer();
            (Outcome::Failed(answer.clone()), answer.into_response())
        }
        Err(NoBody::Unreadable) => (Outcome::Retryable, Problem::AnswerLost.answer().into_response()),
    };
    match report(attempt, &ending).await {
        Some(FinishOutcome::Fenced) => Problem::TakenOver.answer().into_response(),
        Some(FinishOutcome::Written | FinishOutcome::AlreadyFinished) => response,
        None => {
            let key = &attempt.claim().key;
            tracing::error!(%key, "a request was done and cannot be remembered: if it comes again, it is done again");
            response
        }
    }
}

fn ending<S>(shared: &Shared<S>, answer: Answer) -> Outcome {
    let status = http::StatusCode::from_u16(answer.status).unwrap_or_default();
    match status {
        status if (shared.transient)(status) => Outcome::Retryable,
        status if status.is_client_error() || status.is_server_error() => Outcome::Failed(answer),
        _ => Outcome::Completed(answer),
    }
}

/// Stores the outcome, with retries while the claim is valid. Returns `None` if the store does not answer until then.
async fn report<S: Store>(attempt: &Attempt<S>, ending: &Outcome) -> Option<FinishOutcome> {
    let told = async {
        loop {
            match attempt.finish(ending).await {
                Ok(ended) => return ended,
                Err(error) => tracing::debug!(%error, "cannot finish a request yet"),
            }
            tokio::time::sleep(FINISH_PAUSE).await;
        }
    };
    attempt.guard(told).await.ok()
}

impl<S, Inner: Clone> Clone for IdempotencyService<S, Inner> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S, Inner> fmt::Debug for IdempotencyService<S, Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdempotencyService")
    }
}
