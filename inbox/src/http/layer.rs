use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use tower_layer::Layer;

use super::detached::Detached;
use super::service::IdempotencyService;
use crate::idempotency::{Records, Store};

/// The longest body of a request that is taken unless it is said.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// The longest answer that is kept unless it is said.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Tells who sends a request.
pub type Caller = dyn Fn(&Parts) -> String + Send + Sync;

/// Tells whether an answer is one of the moment.
pub type Transient = dyn Fn(StatusCode) -> bool + Send + Sync;

/// Gives each request with an `Idempotency-Key` to the service once.
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
    /// Where handlers finish although their clients may be gone, if they do.
    pub(super) detached: Option<Detached>,
}

impl<S: Store> IdempotencyLayer<S> {
    /// With these records. `caller` tells who sends a request: the account, not a token that is renewed. A key of one caller is
    /// not that of another, who would get the first one's answers otherwise. A service with one caller says `String::new()`.
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

    /// Whether a request without a key is refused, which it is unless it is said. Otherwise it is done each time it comes.
    #[must_use]
    pub fn required(self, required: bool) -> Self {
        self.change(|shared| shared.required = required)
    }

    /// Which answers are of the moment: they are not kept, and the next request with the key is done. Unless it is said, those
    /// are 401, 403, 408, 409, 425, 429 and all from 500.
    #[must_use]
    pub fn transient(self, transient: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.change(|shared| shared.transient = Arc::new(transient))
    }

    /// The longest body of a request that is taken, 1 MiB unless it is said. It is held in memory.
    #[must_use]
    pub fn request_bytes_max(self, bytes: usize) -> Self {
        self.change(|shared| shared.request_bytes_max = bytes)
    }

    /// The longest answer that is kept, 1 MiB unless it is said. In the place of a longer one stands an error, for the first
    /// request too.
    #[must_use]
    pub fn answer_bytes_max(self, bytes: usize) -> Self {
        self.change(|shared| shared.answer_bytes_max = bytes)
    }

    /// Finishes a request with a key although its client hangs up; off by default. Then the handler runs on a task of its own, its answer
    /// is kept, and the client's next request gets it. Otherwise the handler is dropped where it is, and the next request waits until
    /// the lease is over and does it again.
    #[must_use]
    pub fn finish_on_disconnect(self, finish: bool) -> Self {
        self.change(|shared| shared.detached = finish.then(Detached::default))
    }

    /// Waits for the requests that [`Self::finish_on_disconnect`] lets finish, before the process ends. When this is dropped before, those
    /// that have not ended are dropped too.
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

/// Without asking the store to be one that can be cloned.
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

/// What another attempt may change.
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
