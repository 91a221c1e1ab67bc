//! Notifications in the pipeline.

use super::{Feed, Outcome};
use crate::connect::converter::{ConvertError, Destination};
use crate::kafka::Transport;
use crate::outbox::RouteError;
use crate::relay::delivery::needs::Need;
use crate::relay::error::Error;
use crate::relay::pipeline::notifier::Notifier;
use crate::relay::time::clock::Now;
use crate::signal::Notification;

impl<T: Transport> Feed<'_, T> {
    /// Notifies of a snapshot, if notifications are enabled.
    pub(in crate::relay) fn notify(&mut self, notification: Notification, now: Now) {
        if let Some(notifier) = &mut self.notifier {
            notifier.report(notification, now);
        }
    }

    /// Hands over the notifications that wait. One that needs something first is sent later.
    ///
    /// # Errors
    /// When the producer refuses it.
    pub(in crate::relay) fn send_notifications(&mut self, now: Now) -> Result<Outcome, Error> {
        while let Some(notification) = self.signals.as_mut().and_then(|signals| signals.next_notification()) {
            self.notify(notification, now);
        }
        while let Some(notice) = self.notifier.as_mut().and_then(Notifier::next) {
            let Some(notifier) = &mut self.notifier else { break };
            let Some(topic) = notifier.topic else { break };
            let (scratch, schemas) = self.encoder.parts();
            let mut into = Destination { scratch, topic: "", schemas };
            let (id, notification) = (notice.id.as_str(), &notice.notification);
            let changes = notifier.changes;
            let need = match changes.notification_record(topic, id, notification, notice.at_ms, &mut into) {
                Ok(None) => None,
                Ok(Some(records)) => {
                    let flight = &mut self.out.flight;
                    records.lend(self.encoder.scratch(), |records| match records {
                        [record, ..] => flight.send_aside(record),
                        [] => Ok(None),
                    })?
                }
                Err(RouteError::Convert { source: ConvertError::Unregistered(registration), .. }) => {
                    Some(Need::Schema(registration))
                }
                Err(error) => {
                    tracing::error!(%error, "cannot convert a notification");
                    None
                }
            };
            if let Some(need) = need {
                notifier.put_back(notice);
                return Ok(Outcome::Lacks(need));
            }
        }
        Ok(Outcome::None)
    }
}
