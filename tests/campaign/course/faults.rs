//! Faults: how they begin and how they end.

use crate::course::trial::Trial;
use crate::plan::feature::Fault;
use crate::support::proxy::{Ending, Weather};
use crate::support::wait::{DEADLINE, eventually};

const SLOW: Weather = Weather::Slow(std::time::Duration::from_millis(60));

impl Trial<'_> {
    /// Lets it go wrong. What befalls a relay does not befall one that waits for a person.
    pub(crate) fn inflict(&mut self, fault: Fault) {
        self.services[0].look_after(&self.world.kafka);
        if fault <= Fault::Replaced && self.services[0].given_up.is_some() {
            return;
        }
        match fault {
            Fault::Killed => self.services[0].relay().kill(),
            Fault::Stopped => {
                let code = self.services[0].stop();
                self.note(&format!("SIGTERM: exit {code}"));
            }
            Fault::Frozen => self.services[0].relay().pause(),
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
        }
    }

    pub(crate) fn heal(&mut self, fault: Fault) {
        match fault {
            Fault::Killed | Fault::Stopped if !self.services[0].relay().is_running() => {
                self.services[0].start_again();
            }
            Fault::Frozen if self.services[0].relay().is_running() => self.services[0].relay().resume(),
            Fault::Replaced => self.services[0].end_second(),
            Fault::KafkaHeld | Fault::KafkaSlow => self.world.kafka_link.set(Weather::Fair),
            _ => {}
        }
    }

    fn of_walsenders(&self, function: &str) {
        let sql = format!(
            "SELECT {function}(active_pid) FROM pg_replication_slots WHERE database = current_database()"
        );
        drop(self.site.db.try_query(&sql));
    }
}
