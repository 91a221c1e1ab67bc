//! Commands to the relay.

use std::future::pending;

use tokio::sync::watch;

use crate::relay::pipeline::core::Wanted;

/// Commanded state of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Send rows.
    Run,
    /// Drain, release the slot, and wait for another command.
    Pause,
    /// Drain, and begin another session at once. A relay that is paused has none, and stays paused.
    Restart,
    /// Drain, and end. Later commands are ignored.
    Stop,
}

/// Sender of commands to a relay; the first one is to run. Clones command the same relay.
#[derive(Debug, Clone)]
pub struct Control(watch::Sender<Orders>);

/// Receiver of the commands of a [`Control`].
#[derive(Debug, Clone)]
pub(in crate::relay) struct TargetReceiver {
    orders: watch::Receiver<Orders>,
    /// Restarts that are done, or have nothing left to do.
    restarts_done: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Orders {
    lasting: Lasting,
    /// Number of restarts that were requested. A restart is done once, and nothing must be reset.
    restarts: u64,
}

/// State until another command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasting {
    Run,
    Pause,
    Stop,
}

impl Default for Control {
    fn default() -> Self {
        Self(watch::Sender::new(Orders { lasting: Lasting::Run, restarts: 0 }))
    }
}

impl Control {
    /// Sets the commanded state. Never blocks.
    pub fn set(&self, target: Target) {
        self.0.send_if_modified(|orders| {
            let next = orders.after(target);
            std::mem::replace(orders, next) != next
        });
    }

    pub(in crate::relay) fn receiver(&self) -> TargetReceiver {
        let orders = self.0.subscribe();
        let restarts_done = orders.borrow().restarts;
        TargetReceiver { orders, restarts_done }
    }
}

impl TargetReceiver {
    /// Returns the commanded state.
    pub(in crate::relay) fn get(&self) -> Target {
        self.orders.borrow().target(self.restarts_done)
    }

    /// Returns what the command means for a session.
    pub(in crate::relay) fn wanted(&self) -> Wanted {
        if self.get() == Target::Run { Wanted::Stream } else { Wanted::Drain }
    }

    /// Marks restarts that were requested so far as done, because another session or a pause begins.
    pub(in crate::relay) fn begin(&mut self) {
        self.restarts_done = self.orders.borrow_and_update().restarts;
    }

    /// Waits until the session has to end. Cancel-safe, as all of these.
    pub(in crate::relay) async fn ends_session(&self) {
        self.reaches(|target| target != Target::Run).await;
    }

    /// Waits until the relay has to end.
    pub(in crate::relay) async fn stops(&self) {
        self.reaches(|target| target == Target::Stop).await;
    }

    /// Waits until a pause is over.
    pub(in crate::relay) async fn ends_pause(&self) {
        self.reaches(|target| target != Target::Pause).await;
    }

    async fn reaches(&self, holds: impl Fn(Target) -> bool) {
        let mut orders = self.orders.clone();
        let reached = orders.wait_for(|orders| holds(orders.target(self.restarts_done))).await.is_ok();
        // Every sender is gone, so no command can follow.
        if !reached {
            pending::<()>().await;
        }
    }
}

impl Orders {
    const fn after(self, target: Target) -> Self {
        let Self { lasting, restarts } = self;
        match (lasting, target) {
            (Lasting::Stop, _) => self,
            (_, Target::Run) => Self { lasting: Lasting::Run, restarts },
            (_, Target::Pause) => Self { lasting: Lasting::Pause, restarts },
            (_, Target::Stop) => Self { lasting: Lasting::Stop, restarts },
            (_, Target::Restart) => Self { lasting, restarts: restarts.wrapping_add(1) },
        }
    }

    const fn target(self, restarts_done: u64) -> Target {
        match self.lasting {
            Lasting::Stop => Target::Stop,
            Lasting::Pause => Target::Pause,
            Lasting::Run if self.restarts != restarts_done => Target::Restart,
            Lasting::Run => Target::Run,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    use super::Target::{Pause, Restart, Run, Stop};
    use super::*;

    fn is_over(future: Pin<&mut impl Future<Output = ()>>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_last_word_counts_and_a_stop_is_the_last() {
        // Commands, and the state afterwards.
        let cases: [(&[Target], Target); 10] = [
            (&[], Run),
            (&[Pause], Pause),
            (&[Pause, Run], Run),
            (&[Restart], Restart),
            (&[Restart, Restart], Restart),
            (&[Restart, Pause], Pause),
            (&[Pause, Restart], Pause),
            (&[Stop, Run], Stop),
            (&[Stop, Pause, Restart], Stop),
            (&[Restart, Stop], Stop),
        ];
        for (said, expected) in cases {
            let control = Control::default();
            let receiver = control.receiver();
            said.iter().for_each(|target| control.set(*target));
            assert_eq!(receiver.get(), expected, "{said:?}");
            assert_eq!(receiver.wanted() == Wanted::Stream, expected == Run, "{said:?}");
        }
    }

    #[test]
    fn a_restart_is_done_once() {
        let control = Control::default();
        let mut receiver = control.receiver();
        control.set(Restart);
        receiver.begin();
        assert_eq!(receiver.get(), Run);
        control.set(Restart);
        assert_eq!(receiver.get(), Restart);
        // In a pause it has nothing to do, not even later.
        control.set(Pause);
        control.set(Restart);
        receiver.begin();
        control.set(Run);
        assert_eq!(receiver.get(), Run);
    }

    #[test]
    fn each_wait_ends_with_its_target() {
        let control = Control::default();
        let receiver = control.receiver();
        let (mut session, mut relay) = (pin!(receiver.ends_session()), pin!(receiver.stops()));
        assert!(!is_over(session.as_mut()) && !is_over(relay.as_mut()));
        control.set(Pause);
        assert!(is_over(session) && !is_over(relay.as_mut()));
        let mut pause = pin!(receiver.ends_pause());
        assert!(!is_over(pause.as_mut()));
        control.set(Stop);
        assert!(is_over(pause) && is_over(relay));
    }

    #[test]
    fn without_anybody_to_say_so_nothing_changes() {
        let receiver = Control::default().receiver();
        assert!(!is_over(pin!(receiver.ends_session())));
    }
}
