//! Handlers of events.

use std::future::Future;
use std::marker::PhantomData;

use super::delivery::Delivery;
use super::failure::Failure;
use crate::postgres::{Connection, HandlerTransaction};

/// Handler of the service, which applies events in one transaction.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Handles the events in the transaction of `connection`.
    fn handle(
        &self,
        connection: &Connection,
        deliveries: Vec<Delivery>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Handler function that receives one event, called once for each event of a batch.
pub(crate) struct Each<F, T, R>(F, PhantomData<fn(T) -> R>);

/// Handler function that receives all events of a batch.
pub(crate) struct Batch<F, T, R>(F, PhantomData<fn(T) -> R>);

impl<F, T, R> Each<F, T, R> {
    pub(crate) fn new(function: F) -> Self {
        Self(function, PhantomData)
    }
}

impl<F, T, R> Batch<F, T, R> {
    pub(crate) fn new(function: F) -> Self {
        Self(function, PhantomData)
    }
}

impl<F, T, R> Handler for Each<F, T, R>
where
    F: Fn(T, Delivery) -> R + Send + Sync + 'static,
    T: HandlerTransaction,
    R: Future<Output = Result<(), Failure>> + Send + 'static,
{
    async fn handle(&self, connection: &Connection, deliveries: Vec<Delivery>) -> Result<(), Failure> {
        for delivery in deliveries {
            (self.0)(lease(connection)?, delivery).await?;
        }
        Ok(())
    }
}

impl<F, T, R> Handler for Batch<F, T, R>
where
    F: Fn(T, Vec<Delivery>) -> R + Send + Sync + 'static,
    T: HandlerTransaction,
    R: Future<Output = Result<(), Failure>> + Send + 'static,
{
    async fn handle(&self, connection: &Connection, deliveries: Vec<Delivery>) -> Result<(), Failure> {
        (self.0)(lease(connection)?, deliveries).await
    }
}

fn lease<T: HandlerTransaction>(connection: &Connection) -> Result<T, Failure> {
    T::lease(connection).ok_or_else(|| Failure::retry("the handler has kept its transaction"))
}
