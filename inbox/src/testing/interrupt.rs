//! Interruption of a handler at a given wait.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Future that is interrupted at a given wait, and counts its waits.
pub(super) struct Interrupted<F> {
    future: Pin<Box<F>>,
    waits: u32,
    at: u32,
}

/// Result of an interruptible future.
#[derive(Debug)]
pub(super) enum Outcome<T> {
    /// The future ended. The second value is the number of its waits.
    Ended(T, u32),
    Interrupted,
}

/// Interrupts the future at this wait, counted from 1. It has done the work before that wait.
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
