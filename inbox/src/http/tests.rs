//! Tests of the layer over a store in memory.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tower_layer::Layer as _;
use tower_service::Service;

use super::*;
use crate::idempotency::{
    BeginOutcome, BeginRequest, Claim, ExtendOutcome, FinishOutcome, Key, Outcome, Record, Records, Store,
    StoreError,
};

const LEASE: Duration = Duration::from_secs(1);

/// Store in memory that only applies the rules of [`Record`]. It can be made unavailable.
#[derive(Clone)]
struct Memory {
    records: Arc<Mutex<HashMap<Key, Record>>>,
    born: Instant,
    away: Arc<AtomicBool>,
    /// Number of finishes that will fail.
    deaf: Arc<AtomicU32>,
}

impl Memory {
    fn new() -> Self {
        let (records, away, deaf) = Default::default();
        Self { records, born: Instant::now(), away, deaf }
    }

    fn on<T>(
        &self,
        key: &Key,
        rule: impl FnOnce(&mut Option<Record>, Duration) -> T,
    ) -> Result<T, StoreError> {
        if self.away.load(Ordering::SeqCst) {
            return Err(StoreError::Unreadable { store: "memory" });
        }
        let mut records = self.records.lock().unwrap();
        let mut record = records.remove(key);
        let told = rule(&mut record, Duration::from_secs(1_800_000_000) + self.born.elapsed());
        records.extend(record.map(|record| (key.clone(), record)));
        Ok(told)
    }
}

impl Store for Memory {
    async fn begin(&self, key: &Key, entry: &BeginRequest) -> Result<BeginOutcome, StoreError> {
        self.on(key, |record, now| Record::begin(record, now, key, entry))
    }

    async fn extend(&self, claim: &Claim, lease: Duration) -> Result<ExtendOutcome, StoreError> {
        self.on(&claim.key, |record, now| Record::extend(record, now, claim, lease))
    }

    async fn finish(
        &self,
        claim: &Claim,
        ending: &Outcome,
        keep: Duration,
    ) -> Result<FinishOutcome, StoreError> {
        if self.deaf.load(Ordering::SeqCst) > 0 {
            self.deaf.fetch_sub(1, Ordering::SeqCst);
            return Err(StoreError::Unreadable { store: "memory" });
        }
        self.on(&claim.key, |record, now| Record::finish(record, now, claim, ending, keep))
    }
}

type Reply = Response<Full<Bytes>>;

/// Handler that counts its calls.
#[derive(Clone)]
struct Handler<F> {
    called: Arc<AtomicU32>,
    handle: F,
}

impl<F, R> Service<Request<Full<Bytes>>> for Handler<F>
where
    F: Fn(u32) -> R,
    R: Future<Output = Reply> + Send + 'static,
{
    type Response = Reply;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
        let reply = (self.handle)(self.called.fetch_add(1, Ordering::SeqCst) + 1);
        Box::pin(async move { Ok(reply.await) })
    }
}

/// Layer over a store, with a handler below it.
struct World<F> {
    memory: Memory,
    layer: IdempotencyLayer<Memory>,
    handler: Handler<F>,
}

impl<F, R> World<F>
where
    F: Fn(u32) -> R + Clone + Send + 'static,
    R: Future<Output = Reply> + Send + 'static,
{
    fn new(handle: F) -> Self {
        let memory = Memory::new();
        let layer =
            IdempotencyLayer::new(Records::new(memory.clone(), "test").lease(LEASE), |_| String::new());
        Self { memory, layer, handler: Handler { called: Arc::default(), handle } }
    }

    async fn response(&self, method: Method, key: Option<&str>, body: &'static str) -> Reply {
        let mut request = Request::builder().method(method).uri("/a");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(Full::from(body)).unwrap();
        self.layer.layer(self.handler.clone()).call(request).await.unwrap()
    }

    /// Returns the value of a header of the answer to a request.
    async fn header(&self, key: &str, name: &str) -> Option<String> {
        let response = self.response(Method::POST, Some(key), "").await;
        response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    }

    /// Returns status and body of the answer to a request.
    async fn ask(&self, method: Method, key: Option<&str>, body: &'static str) -> (u16, String) {
        let response = self.response(method, key, body).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
    }

    async fn post(&self, key: &str) -> (u16, String) {
        self.ask(Method::POST, Some(key), "").await
    }

    fn called(&self) -> u32 {
        self.handler.called.load(Ordering::SeqCst)
    }
}

fn reply(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply
}

/// Answers with the number of the call.
async fn count(call: u32) -> Reply {
    reply(StatusCode::OK, call.to_string())
}

#[tokio::test]
async fn nothing_is_done_while_the_store_is_away() {
    let world = World::new(count);
    world.memory.away.store(true, Ordering::SeqCst);
    let (status, body) = world.post("a").await;
    assert!(status == 503 && body.contains("store-away"), "{body}");
    assert_eq!(world.called(), 0);
    world.memory.away.store(false, Ordering::SeqCst);
    assert_eq!(world.post("a").await, (200, "1".to_owned()));
}

#[tokio::test]
async fn a_handler_that_is_cut_off_from_the_store_is_stopped_and_taken_over() {
    let world = World::new(|call| async move {
        if call == 1 {
            std::future::pending::<()>().await;
        }
        count(call).await
    });
    let cut_off = async {
        while world.called() == 0 {
            tokio::task::yield_now().await;
        }
        world.memory.away.store(true, Ordering::SeqCst);
    };
    let ((status, body), ()) = tokio::join!(world.post("a"), cut_off);
    assert!(status == 503 && body.contains("taken-over"), "{body}");
    world.memory.away.store(false, Ordering::SeqCst);
    let answer = loop {
        match world.post("a").await {
            (409, _) => tokio::time::sleep(LEASE / 20).await,
            other => break other,
        }
    };
    assert_eq!(answer, (200, "2".to_owned()));
    assert_eq!(world.post("a").await, answer);
}

#[tokio::test]
async fn a_store_that_does_not_receive_the_outcome_gets_it_again() {
    let world = World::new(count);
    world.memory.deaf.store(2, Ordering::SeqCst);
    assert_eq!(world.post("a").await, (200, "1".to_owned()));
    assert_eq!(world.post("a").await, (200, "1".to_owned()));
}

#[tokio::test]
async fn an_answer_that_is_too_long_to_be_kept_is_an_error_and_not_another_call() {
    let mut world = World::new(|_| async { reply(StatusCode::OK, "long") });
    world.layer = world.layer.answer_bytes_max(3);
    let first = world.post("a").await;
    assert!(first.0 == 500 && first.1.contains("It will not be done again."), "{first:?}");
    assert_eq!(world.post("a").await, first);
    assert_eq!(world.called(), 1);
}

#[tokio::test]
async fn what_is_idempotent_by_itself_needs_no_key() {
    let mut world = World::new(count);
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        assert_eq!(world.ask(method, None, "").await.0, 200);
    }
    assert_eq!(world.post("\"open").await.0, 400);
    assert_eq!(world.ask(Method::POST, None, "").await.0, 400);
    assert_eq!(world.ask(Method::PATCH, None, "").await.0, 400);
    assert_eq!(world.called(), 3);
    world.layer = world.layer.required(false);
    assert_eq!(world.ask(Method::POST, None, "").await, (200, "4".to_owned()));
    assert_eq!(world.ask(Method::POST, None, "").await, (200, "5".to_owned()));
}

#[tokio::test]
async fn method_and_body_are_part_of_the_request() {
    let world = World::new(count);
    assert_eq!(world.ask(Method::POST, Some("a"), "x").await.0, 200);
    assert_eq!(world.ask(Method::POST, Some("a"), "y").await.0, 422);
    assert_eq!(world.ask(Method::PATCH, Some("a"), "x").await.0, 422);
    assert_eq!(world.called(), 1);
}

#[tokio::test]
async fn an_answer_of_the_moment_is_not_kept() {
    // Status of each answer, and the number of handler calls for two requests.
    for (status, calls) in [(500, 2), (503, 2), (429, 2), (401, 2), (400, 1), (404, 1), (204, 1), (302, 1)] {
        let status = StatusCode::from_u16(status).unwrap();
        let world = World::new(move |_| async move { reply(status, "") });
        assert_eq!(world.post("a").await.0, status.as_u16());
        assert_eq!(world.post("a").await.0, status.as_u16());
        assert_eq!(world.called(), calls, "{status}");
    }
    let mut world = World::new(|_| async { reply(StatusCode::INTERNAL_SERVER_ERROR, "") });
    world.layer = world.layer.transient(|_| false);
    world.post("a").await;
    world.post("a").await;
    assert_eq!(world.called(), 1);
}

#[tokio::test]
async fn the_answer_to_a_repeat_is_marked() {
    for status in [StatusCode::OK, StatusCode::NOT_FOUND] {
        let world = World::new(move |_| async move { reply(status, "") });
        assert_eq!(world.header("a", "idempotent-replayed").await, None);
        assert_eq!(world.header("a", "idempotent-replayed").await.as_deref(), Some("true"));
        assert_eq!(world.header("b", "idempotent-replayed").await, None);
    }
    let world = World::new(count);
    world.memory.away.store(true, Ordering::SeqCst);
    assert_eq!(world.header("a", "idempotent-replayed").await, None);
}

#[tokio::test]
async fn a_request_that_comes_too_early_gets_the_remaining_time_of_the_lease() {
    let mut world = World::new(|_| std::future::pending::<Reply>());
    let records = Records::new(world.memory.clone(), "test").lease(Duration::from_secs(30));
    world.layer = IdempotencyLayer::new(records, |_| String::new());
    let come_again = async {
        while world.called() == 0 {
            tokio::task::yield_now().await;
        }
        world.header("a", "retry-after").await.unwrap()
    };
    let left = tokio::select! {
        biased;
        _ = world.post("a") => panic!("the handler never ends"),
        left = come_again => left,
    };
    assert!((20..=30).contains(&left.parse::<u64>().unwrap()), "{left}");
}

/// Disconnects as soon as the handler is called, and lets the handler continue after that.
async fn hang_up(finish: bool) -> (u32, (u16, String)) {
    let (resume, may) = tokio::sync::watch::channel(false);
    let mut world = World::new(move |call| {
        let mut may = may.clone();
        async move {
            may.wait_for(|may| *may).await.unwrap();
            count(call).await
        }
    });
    world.layer = world.layer.finish_on_disconnect(finish);
    let called = async {
        while world.called() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        _ = world.post("a") => panic!("the handler waits"),
        () = called => {}
    }
    resume.send(true).unwrap();
    world.layer.finish_disconnected().await;
    let answer = loop {
        match world.post("a").await {
            (409, _) => tokio::time::sleep(LEASE / 20).await,
            other => break other,
        }
    };
    (world.called(), answer)
}

#[tokio::test]
async fn a_handler_whose_client_hangs_up_finishes_when_it_should() {
    assert_eq!(hang_up(true).await, (1, (200, "1".to_owned())));
    assert_eq!(hang_up(false).await, (2, (200, "2".to_owned())));
}

#[tokio::test]
async fn a_panic_of_a_handler_on_a_task_of_its_own_is_an_error_of_its_client() {
    let mut world = World::new(|_| async { panic!("a mistake of the handler") });
    world.layer = world.layer.finish_on_disconnect(true);
    let (status, body) = world.post("a").await;
    assert!(status == 500 && body.contains("answer-lost"), "{body}");
}
