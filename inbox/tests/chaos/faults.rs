//! Steps between the events.

use std::time::Duration;

use outboxd::internals::throwaway::StopMode;

use crate::draw::{Step, *};
use crate::support::proxy::{Ending, Weather};
use crate::support::wait::{DEADLINE, eventually, let_pass};
use crate::trial::{KEYS, Trial};

/// Longer than a consumer's session, which ends after 2 s.
const FROZEN_FOR: Duration = Duration::from_millis(3500);
const HELD_FOR: Duration = Duration::from_millis(1500);
const OUTAGE: Duration = Duration::from_millis(2500);
/// Events of a consumer that may be given up in an outage: two before the guard looks at the third, and one whose first failure was before
/// the last success of a handler that had begun before the outage.
const GIVEN_UP_MAX: usize = 3;
/// Less than the time limit of a handler.
const LOCKED_FOR: &str = "1.5";

impl Trial<'_> {
    pub(crate) fn inflict(&mut self, step: Step) {
        match step {
            ConsumerKilled => {
                self.consumers.remove(0).kill();
                self.start_consumer();
            }
            ConsumerFrozen => {
                self.consumers[0].pause();
                self.start_consumer();
                self.send(20);
                let_pass(FROZEN_FOR);
                self.consumers[0].resume();
            }
            ConsumerJoins => self.start_consumer(),
            ConsumerLeaves => {
                self.look_after();
                self.stop_consumer();
                self.start_consumer();
            }
            PostgresCut => self.world.postgres_link.cut(Ending::Rst),
            PostgresHeld => {
                self.world.postgres_link.set(Weather::Held);
                let_pass(HELD_FOR);
                self.world.postgres_link.set(Weather::Fair);
            }
            PostgresKilled => {
                self.world.postgres.stop(StopMode::Immediate, DEADLINE).unwrap();
                self.world.postgres.start_again().unwrap();
            }
            BackendsTerminated => self.terminate(),
            KafkaCut => self.world.kafka_link.cut(Ending::Fin),
            KafkaHeld => {
                self.world.kafka_link.set(Weather::Held);
                let_pass(HELD_FOR);
                self.world.kafka_link.set(Weather::Fair);
            }
            KafkaKilled => {
                self.world.kafka.kill();
                self.world.kafka.start_again();
            }
            Outage => {
                self.given_up_max += GIVEN_UP_MAX * self.consumers.len();
                self.execute("INSERT INTO outage VALUES (now())");
                self.send(40);
                let_pass(OUTAGE);
                self.execute("DELETE FROM outage");
            }
            TableLocked => {
                self.execute(&format!("BEGIN; LOCK TABLE effects; SELECT pg_sleep({LOCKED_FOR}); COMMIT"));
            }
            ColumnAdded => self.execute(
                "ALTER TABLE settings ADD COLUMN c_new text DEFAULT 'x'; ALTER TABLE effects ADD COLUMN c_new text",
            ),
            DatabaseRestored => {
                while !self.consumers.is_empty() {
                    self.stop_consumer();
                }
                self.copy_database();
                (0..self.draw.consumers).for_each(|_| self.start_consumer());
                self.send(40);
                self.wait_for_progress();
                self.consumers.drain(..).for_each(crate::process::Process::kill);
                self.put_back();
                (0..self.draw.consumers).for_each(|_| self.start_consumer());
            }
            DatabaseFailedOver => {
                self.copy_database();
                self.wait_for_progress();
                self.put_back();
            }
            TopicMadeAgain => {
                if self.settle().is_some() {
                    return;
                }
                let topic = self.topic();
                self.world.kafka.delete_topic(&topic);
                self.world.kafka.create_topic(&topic, 3, &[]);
                // The client notices it by offsets that it does not find: while the new topic is shorter than the old one.
                self.send(KEYS);
                self.settle();
            }
        }
    }

    fn stop_consumer(&mut self) {
        let mut consumer = self.consumers.remove(0);
        if !consumer.has_ended() {
            consumer.stop();
        }
    }

    /// Ends the sessions of the consumers.
    fn terminate(&self) {
        let sql = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND pid <> pg_backend_pid()",
            self.name()
        );
        self.admin(&sql).unwrap();
    }

    fn admin(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.world.execute(&self.world.url("postgres", "public"), sql)
    }

    /// Copies the database, for which its sessions are ended.
    fn copy_database(&self) {
        let name = self.name();
        self.admin(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).unwrap();
        eventually(DEADLINE, "the database is copied", || {
            self.terminate();
            self.admin(&format!("CREATE DATABASE {name}_copy TEMPLATE {name}")).is_ok()
        });
        self.admin(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).unwrap();
    }

    /// Puts the copy in the place of the database.
    fn put_back(&mut self) {
        let name = self.name().to_owned();
        self.admin(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).unwrap();
        self.admin(&format!("DROP DATABASE {name} WITH (FORCE)")).unwrap();
        self.admin(&format!("ALTER DATABASE {name}_copy RENAME TO {name}")).unwrap();
        self.operations.restored.extend(self.dead_ids());
    }
}
