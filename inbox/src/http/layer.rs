//! Layer for Tower services.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use tower_layer::Layer;

use super::detached::Detached;
use super::service::IdempotencyService;
use crate::idempotency::{Records, Store};

/// Default maximum size of a request body, in bytes.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// Default maximum size of a stored answer's body, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Function that returns the caller of a request.
pub type Caller = dyn Fn(&Parts) -> String + Send + Sync;

/// Function that reports whether an answer with this status is transient and must not be stored.
pub type Transient = dyn Fn(StatusCode) -> bool + Send + Sync;

/// Layer that passes each request with an `Idempotency-Key` to the service once and answers its repeats from the store.
pub struct IdempotencyLayer<S> {
    shared: Arc<Shared<S>>,
}

pub(super) struct Shared<S> {
    pub(super) records: Records<S>,
    pub(super) caller: Arc<Caller>,
    pub(super) transient: Arc<Transient>,
    pub(super) required: bool,
    pub(super) request_bytes_max: usize,
    pub(super) answer_bytes_max: usize,
    /// Tasks on which handlers finish after their clients have disconnected, if that is enabled.
    pub(super) detached: Option<Detached>,
}

impl<S: Store> IdempotencyLayer<S> {
    /// Creates a layer on these records. `caller` returns the caller of a request: the account, not a token that is renewed. Keys of
    /// different callers are different keys; otherwise one caller could get the answers of another. A service with a single caller returns
    /// `String::new()`.
    #[must_use]
    pub fn new(records: Records<S>, caller: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        let shared = Shared {
            records,
            caller: Arc::new(caller),
            transient: Arc::new(is_of_the_moment),
            required: true,
            request_bytes_max: REQUEST_BYTES_MAX,
            answer_bytes_max: ANSWER_BYTES_MAX,
            detached: None,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Sets whether a request without a key is refused, which is the default. If not, such a request is passed to the service each time.
    #[must_use]
    pub fn required(self, required: bool) -> Self {
        self.change(|shared| shared.required = required)
    }

    /// Sets which answers are transient: they are not stored, and the next request with the key is passed to the service. The default is
    /// 401, 403, 408, 409, 425, 429 and every status from 500.
    #[must_use]
    pub fn transient(self, transient: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.change(|shared| shared.transient = Arc::new(transient))
    }

    /// Sets the maximum size of a request body in bytes, 1 MiB by default. The body is buffered in memory.
    #[must_use]
    pub fn request_bytes_max(self, bytes: usize) -> Self {
        self.change(|shared| shared.request_bytes_max = bytes)
    }

    /// Sets the maximum size of a stored answer's body in bytes, 1 MiB by default. A longer answer is replaced by an error, for the first
    /// request too.
    #[must_use]
    pub fn answer_bytes_max(self, bytes: usize) -> Self {
        self.change(|shared| shared.answer_bytes_max = bytes)
    }

    /// Sets whether a request with a key is finished after its client has disconnected; off by default. If on, the handler runs on a task
    /// of its own, its answer is stored, and the client's next request gets it. If off, the handler is dropped where it is, and the next
    /// request waits until the lease ends and runs the handler again.
    #[must_use]
    pub fn finish_on_disconnect(self, finish: bool) -> Self {
        self.change(|shared| shared.detached = finish.then(Detached::default))
    }

    /// Waits until the requests that run because of [`Self::finish_on_disconnect`] are finished; call it before the process ends. Requests
    /// that have not finished when the layer is dropped are dropped too.
    pub async fn finish_disconnected(&self) {
        if let Some(detached) = &self.shared.detached {
            detached.finish().await;
        }
    }

    fn change(self, change: impl FnOnce(&mut Shared<S>)) -> Self {
        let mut shared = Shared::clone(&self.shared);
        change(&mut shared);
        Self { shared: Arc::new(shared) }
    }
}

/// Does not require `S: Clone`.
impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self {
            records: self.records.clone(),
            caller: Arc::clone(&self.caller),
            transient: Arc::clone(&self.transient),
            detached: self.detached.clone(),
            ..*self
        }
    }
}

/// Reports whether another attempt may get another answer.
fn is_of_the_moment(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 401 | 403 | 408 | 409 | 425 | 429)
}

impl<S, Inner> Layer<Inner> for IdempotencyLayer<S> {
    type Service = IdempotencyService<S, Inner>;

    fn layer(&self, inner: Inner) -> Self::Service {
        IdempotencyService { inner, shared: Arc::clone(&self.shared) }
    }
}

impl<S> Clone for IdempotencyLayer<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<S> fmt::Debug for IdempotencyLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdempotencyLayer")
    }
}
