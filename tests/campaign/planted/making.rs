//! The mistakes themselves.

use std::sync::Arc;

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use crate::course::load;
use crate::course::trial::Trial;
use crate::planted::Planted::{self, *};
use crate::support::outbox::Outbox;
use crate::support::proxy::{Tamper, Tampering, Toward};
use crate::support::record::Record;
use crate::support::relay::{Config, with};
use crate::support::wait::{DEADLINE, eventually};

/// Gives each signal a condition that leaves some rows out.
const CONDITION: &str = "CREATE FUNCTION narrow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF new.type = 'execute-snapshot' THEN
            new.data := new.data::jsonb || '{\"additional-conditions\": [{\"data-collection\": \"public.t_a\", \"filter\": \"id % 5 <> 0\"}]}';
        END IF;
        RETURN new;
    END $$;
    CREATE TRIGGER narrow BEFORE INSERT ON signals FOR EACH ROW EXECUTE FUNCTION narrow()";

impl Planted {
    pub(crate) fn tampering(self) -> Option<Tampering> {
        match self {
            RowSkipped => Some(Arc::new(|| Box::new(FirstRowDropped(false)))),
            NamesTrusted => Some(Arc::new(|| Box::new(PathKept))),
            _ => None,
        }
    }

    pub(crate) fn before_start(self, db: &Outbox) {
        match self {
            FalseCleanup => db.execute("DELETE FROM outbox WHERE aggregateid::int % 2 = 0"),
            SnapshotSkipsRows => db.execute(CONDITION),
            SlotTwoPhase => {
                drop(db.query(
                    "SELECT pg_create_logical_replication_slot($1, 'pgoutput', false, true)",
                    &[&db.name()],
                ));
            }
            _ => {}
        }
    }

    pub(crate) fn config(self, config: Config) -> Config {
        match self {
            SlotShared | StopForgotten | GapUnreported => with(
                config,
                &[("outboxd.position.topic", ""), ("outboxd.delivery.guarantee", "at_least_once")],
            ),
            TableLeftOut => {
                with(config, &[("table.include.list", "public.t_a,public.t_b,public.t_c,public.t_p[0-9]+")])
            }
            PasswordFixed => with(config, &[("database.password", "password-1")]),
            RetriesForbidden => with(config, &[("errors.max.retries", "0")]),
            _ => config,
        }
    }

    /// Makes the mistakes that need an idle relay, after the last write.
    pub(crate) fn in_the_end(self, trial: &mut Trial<'_>) {
        let (name, publication) = (trial.services[0].name.clone(), trial.services[0].name.clone());
        let events = format!("{name}.ev");
        match self {
            SlotShared => trial.while_stopped(&[&format!(
                "SELECT count(*) FROM pg_logical_slot_get_binary_changes('{name}', NULL, NULL, 'proto_version', '1',
                 'publication_names', '{publication}')"
            )]),
            StopForgotten => trial.while_stopped(&[
                &format!("ALTER PUBLICATION {publication} DROP TABLE outbox"),
                &load::transaction(20, 0.0, 0.0, 0.5),
                &format!("ALTER PUBLICATION {publication} ADD TABLE outbox"),
            ]),
            RecordRemoved => {
                trial.wait_until_confirmed();
                (0..2).for_each(|partition| trial.world.kafka.delete_records(&events, partition, 2));
            }
            RecordReplaced | RecordRepeated | RecordInvented => {
                trial.wait_until_confirmed();
                let record = trial.world.kafka.records(&events).pop().unwrap();
                let value = match self {
                    RecordReplaced => record.value().replace("\"pad\":\"", "\"pad\":\"x"),
                    RecordInvented => record.value().replace("\"n\":", "\"n\":9"),
                    _ => record.value().to_owned(),
                };
                produce(trial, &record, &value);
            }
            OldRecordLast => {
                trial.wait_until_confirmed();
                let records = trial.world.kafka.records(&format!("{name}.public.t_a"));
                let overtaken = |(number, record): &(usize, &Record)| {
                    record.value.is_some() && records[number + 1..].iter().any(|later| later.key == record.key && later.value.is_some())
                };
                let (_, old) = records.iter().enumerate().find(overtaken).unwrap();
                produce(trial, old, old.value());
            }
            AlarmRaised => {
                // Nothing is confirmed before the first poll of the catalog, which later ones are compared with.
                trial.site.db.execute(&load::transaction(20, 0.0, 0.0, 0.5));
                trial.wait_until_confirmed();
                trial.site.db.execute("ALTER TABLE t_c SET UNLOGGED; ALTER TABLE t_c SET LOGGED");
                eventually(DEADLINE, "the alarm is raised", || trial.services[0].has_alarms());
            }
            // The rows of one table have no record at all.
            VerifyLooksAway => {
                trial.wait_until_confirmed();
                (0..2).for_each(|partition| {
                    let topic = format!("{name}.public.t_a");
                    let records = trial.world.kafka.records(&topic);
                    let last = records.iter().rfind(|record| record.partition == partition);
                    trial.world.kafka.delete_records(&topic, partition, last.map_or(0, |last| last.offset + 1));
                });
            }
            _ => {}
        }
    }
}

impl Trial<'_> {
    /// Waits until the relay has ended, and writes its last position without the stop again.
    pub(crate) fn erase_stop(&mut self) {
        eventually(DEADLINE, "the relay has ended", || !self.services[0].relay().is_running());
        let slot = format!("\"slot\":\"{}\"", self.services[0].name);
        let positions = self.world.kafka.records("__outboxd-positions");
        let stored = positions.iter().rfind(|record| record.value().contains(&slot)).unwrap();
        let mut position: serde_json::Value = serde_json::from_str(stored.value()).unwrap();
        position.as_object_mut().unwrap().remove("stopped").unwrap();
        produce(self, stored, &position.to_string());
    }

    /// Ends the relay, writes, does something else, and starts it again.
    fn while_stopped(&mut self, statements: &[&str]) {
        self.services[0].relay().kill();
        let slot = self.services[0].name.clone();
        let is_free = format!("SELECT FROM pg_replication_slots WHERE slot_name = '{slot}' AND NOT active");
        eventually(DEADLINE, "the slot is free", || !self.site.db.query(&is_free, &[]).is_empty());
        self.site.db.execute(&load::transaction(20, 0.0, 0.0, 0.25));
        statements.iter().for_each(|sql| self.site.db.execute(sql));
        self.services[0].start_again();
        self.recover("the mistake");
    }
}

fn produce(trial: &Trial<'_>, record: &Record, value: &str) {
    let headers = record.headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
        headers.insert(Header { key, value: value.as_deref() })
    });
    let again = BaseRecord::to(&record.topic)
        .key(record.key.as_deref().unwrap())
        .payload(value.as_bytes())
        .headers(headers);
    trial.world.kafka.produce(again.partition(record.partition));
}

/// Leaves a session the `search_path` that its role has.
struct PathKept;

impl Tamper for PathKept {
    fn message(&mut self, toward: Toward, message: &mut Vec<u8>) {
        let set: &[u8] = b"search_path = pg_catalog";
        let at = message.windows(set.len()).position(|bytes| bytes == set);
        if let (Toward::Server, Some(at)) = (toward, at) {
            message[at..at + set.len()].copy_from_slice(b"DateStyle = 'ISO, YMD'  ");
        }
    }
}

/// Takes the first Insert out of a connection.
struct FirstRowDropped(bool);

impl Tamper for FirstRowDropped {
    fn message(&mut self, toward: Toward, message: &mut Vec<u8>) {
        let is_row =
            message.first() == Some(&b'd') && message.get(5) == Some(&b'w') && message.get(30) == Some(&b'I');
        if toward == Toward::Client && is_row && !self.0 {
            self.0 = true;
            message.clear();
        }
    }
}
