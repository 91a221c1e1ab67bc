use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that is given up when it has waited so often. It counts its waits.
pub(super) struct Interrupted<F> {
    future: Pin<Box<F>>,
    waits: u32,
    at: u32,
}

/// How it went.
#[derive(Debug)]
pub(super) enum Outcome<T> {
    /// With how often it waited.
    Ended(T, u32),
    Interrupted,
}

/// Gives the future up at this wait, from 1. It has done what comes before that wait.
pub(super) fn interrupt<F: Future>(future: F, at: u32) -> Interrupted<F> {
    Interrupted { future: Box::pin(future), waits: 0, at }
}

impl<F: Future> Future for Interrupted<F> {
    type Output = Outcome<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(context) {
            return Poll::Ready(Outcome::Ended(output, self.waits));
        }
        self.waits += 1;
        if self.waits >= self.at { Poll::Ready(Outcome::Interrupted) } else { Poll::Pending }
    }
}
