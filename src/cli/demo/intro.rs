//! Text before the first record.

use std::net::SocketAddr;

use super::names::{NAME, Names};
use super::servers::{Broker, Database, PARTITION_COUNT};
use super::show::style;

/// Addresses of what runs.
pub(super) struct Intro<'a> {
    pub(super) database: &'a Database,
    pub(super) broker: &'a Broker,
    pub(super) names: &'a Names,
    /// `server_version_num`
    pub(super) version_num: i32,
    pub(super) status: SocketAddr,
}

impl Intro<'_> {
    /// Returns the lines, the last one empty.
    pub(super) fn text(&self, colour: bool) -> String {
        let (bold, dim, cyan) = (style(colour).bold(), style(colour).dim(), style(colour).cyan());
        let mut text = format!(
            "{}\n",
            bold.apply_to("outboxd demo: orders go into PostgreSQL, their events come out of Kafka")
        );
        for (label, line) in self.facts() {
            text.push_str(&format!("  {}{line}\n", dim.apply_to(format!("{label:<13}"))));
        }
        text.push_str(&format!("\n{}\n", dim.apply_to("Look at it from another terminal:")));
        for command in self.commands() {
            text.push_str(&format!("  {}\n", cyan.apply_to(command)));
        }
        let end = if self.database.is_throwaway() && self.broker.is_mock() {
            "Ctrl-C stops and leaves nothing behind."
        } else {
            "Ctrl-C stops and drops what the demo made on your server."
        };
        text.push_str(&format!("\n{}\n", bold.apply_to(end)));
        text
    }

    fn facts(&self) -> [(&'static str, String); 4] {
        let Self { database, broker, names, version_num, status } = self;
        let address = &database.address;
        let (major, minor) = (version_num / 10_000, version_num % 10_000);
        let whose = if database.is_throwaway() { "throwaway" } else { "yours" };
        let kafka = if broker.is_mock() { "librdkafka's broker in this process" } else { "yours" };
        let (topic, outbox) = (names.topic(), names.outbox());
        [
            ("PostgreSQL", format!("{major}.{minor} on {} port {} ({whose})", address.host, address.port)),
            ("Kafka", format!("{} ({kafka}), {PARTITION_COUNT} partitions", broker.bootstrap_servers)),
            ("relay", format!("{outbox} → publication {NAME} → slot {NAME} → {topic}")),
            ("status page", format!("http://{status}/")),
        ]
    }

    /// Returns the commands to try. kcat is built on librdkafka, whose broker Java's client does not
    /// understand.
    fn commands(&self) -> [String; 3] {
        let (url, outbox) = (self.database.address.url(), self.names.outbox());
        let (servers, topic) = (&self.broker.bootstrap_servers, self.names.topic());
        let consumer = if self.broker.is_mock() {
            format!("kcat -b {servers} -C -t {topic}")
        } else {
            format!("kafka-console-consumer.sh --bootstrap-server {servers} --topic {topic} --from-beginning")
        };
        [
            consumer,
            format!("psql '{url}' -c 'TABLE {outbox}'"),
            format!(
                "psql '{url}' -c \"INSERT INTO {outbox} (aggregate_type, aggregate_id, event_type, payload) \
                 VALUES ('order', '7', 'OrderPraised', '{{}}')\""
            ),
        ]
    }
}
