//! Requests that continue after a client has disconnected.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// Requests that are finished even if their clients have disconnected.
#[derive(Debug, Clone, Default)]
pub(super) struct Detached {
    tasks: Arc<Mutex<JoinSet<()>>>,
}

impl Detached {
    /// Runs `work` on a task of its own and waits for its result. Returns `None` if the task panicked or was aborted.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.spawn(async move { drop(sender.send(work.await)) });
        receiver.await.ok()
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }

    /// Waits until all tasks that were started have finished.
    pub(super) async fn finish(&self) {
        let mut tasks = std::mem::take(&mut *self.lock());
        while tasks.join_next().await.is_some() {}
    }

    fn lock(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
