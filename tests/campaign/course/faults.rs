//! Faults: how they begin and how they end.

use crate::course::service::{Role, Service};
use crate::course::trial::Trial;
use crate::plan::feature::{Fault, Feature};
use crate::support::proxy::{Ending, Weather};
use crate::support::wait::{DEADLINE, eventually};

const SLOW: Weather = Weather::Slow(std::time::Duration::from_millis(60));

impl Trial<'_> {
    /// Lets it go wrong. What befalls a relay does not befall one that waits for a person.
    pub(crate) fn inflict(&mut self, fault: Fault) {
        let kafka = &self.world.kafka;
        self.services.iter_mut().for_each(|service| service.look_after(kafka));
        if fault <= Fault::Replaced && self.services[0].given_up.is_some() {
            return;
        }
        match fault {
            Fault::Killed => self.struck().for_each(|service| service.relay().kill()),
            Fault::Stopped => {
                let codes: Vec<i32> = self.struck().map(Service::stop).collect();
                self.note(&format!("SIGTERM: exit {codes:?}"));
            }
            Fault::Frozen => self.struck().for_each(|service| service.relay().pause()),
            Fault::TakenOver | Fault::Replaced => {
                self.services[0].take_over(&self.site.db, fault == Fault::Replaced);
            }
            Fault::PostgresKilled => {
                self.site.db.disconnect();
                self.world.postgres.kill().unwrap();
                self.world.postgres.start_again().unwrap();
                eventually(DEADLINE, "PostgreSQL answers", || self.site.db.try_query("SELECT").is_ok());
            }
            Fault::BackendTerminated => self.of_walsenders("pg_terminate_backend"),
            Fault::WalsenderCancelled => self.of_walsenders("pg_cancel_backend"),
            Fault::PostgresCut => self.site.link.cut(Ending::Rst),
            Fault::KafkaHeld => self.world.kafka_link.set(Weather::Held),
            Fault::KafkaCut => self.world.kafka_link.cut(Ending::Fin),
            Fault::KafkaGarbled => self.world.kafka_link.garble(),
            Fault::KafkaSlow => self.world.kafka_link.set(SLOW),
            Fault::KafkaRestarted => self.restart_kafka(),
        }
    }

    /// Ends the broker and starts it again. One that is killed in the middle of a commit may forget the transaction.
    fn restart_kafka(&mut self) {
        let draw = &self.site.draw;
        if draw.has(Feature::ExactlyOnce) || draw.has(Feature::GuaranteeChanged) {
            self.world.kafka.stop();
        } else {
            self.world.kafka.kill();
        }
        self.world.kafka.start_again();
    }

    pub(crate) fn heal(&mut self, fault: Fault) {
        match fault {
            Fault::Killed | Fault::Stopped => self.struck().for_each(|service| {
                if !service.relay().is_running() {
                    service.start_again();
                }
            }),
            Fault::Frozen => self.struck().for_each(|service| {
                if service.relay().is_running() {
                    service.relay().resume();
                }
            }),
            Fault::Replaced => self.services[0].end_second(),
            Fault::KafkaHeld | Fault::KafkaSlow => self.world.kafka_link.set(Weather::Fair),
            _ => {}
        }
    }

    /// Returns the services that a fault of their process strikes: the first, and the one that has replaced a poller.
    fn struck(&mut self) -> impl Iterator<Item = &mut Service> {
        self.services.iter_mut().filter(|service| service.role != Role::Second && service.given_up.is_none())
    }

    fn of_walsenders(&self, function: &str) {
        let sql = format!(
            "SELECT {function}(active_pid) FROM pg_replication_slots WHERE database = current_database()"
        );
        drop(self.site.db.try_query(&sql));
    }
}
