use std::future::Future;
use std::marker::PhantomData;

use super::delivery::Delivery;
use super::failure::Failure;
use crate::postgres::Transaction;

/// What the service does with events, all in one transaction.
pub(super) trait Handler: Send + Sync + 'static {
    fn handle(
        &self,
        transaction: Transaction,
        deliveries: Vec<Delivery>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A function that is given one event, once for each of a batch.
pub(super) struct Each<F, R>(F, PhantomData<fn() -> R>);

/// A function that is given all events of a batch.
pub(super) struct Batch<F, R>(F, PhantomData<fn() -> R>);

impl<F, R> Each<F, R> {
    pub(super) fn new(function: F) -> Self {
        Self(function, PhantomData)
    }
}

impl<F, R> Batch<F, R> {
    pub(super) fn new(function: F) -> Self {
        Self(function, PhantomData)
    }
}

impl<F, R> Handler for Each<F, R>
where
    F: Fn(Transaction, Delivery) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), Failure>> + Send + 'static,
{
    async fn handle(&self, transaction: Transaction, deliveries: Vec<Delivery>) -> Result<(), Failure> {
        for delivery in deliveries {
            (self.0)(transaction.clone(), delivery).await?;
        }
        Ok(())
    }
}

impl<F, R> Handler for Batch<F, R>
where
    F: Fn(Transaction, Vec<Delivery>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), Failure>> + Send + 'static,
{
    fn handle(
        &self,
        transaction: Transaction,
        deliveries: Vec<Delivery>,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        (self.0)(transaction, deliveries)
    }
}
