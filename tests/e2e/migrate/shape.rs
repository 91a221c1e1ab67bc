use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::Outbox;
use crate::support::relay::{Config, with};

/// An outbox as a polling relay has it: its table, and what the poller asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) table: &'static str,
    /// The column, as CREATE TABLE has it.
    pub(crate) mark: &'static str,
    /// Column and value that the application writes; `None` if it does not name the column.
    pub(crate) written: Option<(&'static str, &'static str)>,
    pub(crate) unsent: &'static str,
    pub(crate) set: &'static str,
    /// True if the poller locks the rows of a batch and marks them together.
    pub(crate) locks: bool,
    /// Further arguments of migrate.
    pub(crate) arguments: &'static [&'static str],
}

pub(crate) const PUBLISHED_AT: Shape = Shape {
    name: "published_at",
    table: "outbox_events",
    mark: "published_at timestamptz NULL",
    written: None,
    unsent: "published_at IS NULL",
    set: "published_at = NOW()",
    locks: true,
    arguments: &[],
};

pub(crate) const PROCESSED_AT: Shape = Shape {
    name: "processed_at",
    table: "outbox",
    mark: "processed_at timestamptz NULL",
    written: None,
    unsent: "processed_at IS NULL",
    set: "processed_at = NOW()",
    locks: true,
    arguments: &[],
};

/// The application writes `false` itself: a default would not do.
pub(crate) const SENT: Shape = Shape {
    name: "sent",
    table: "outbox",
    mark: "sent boolean NOT NULL",
    written: Some(("sent", "false")),
    unsent: "sent = false",
    set: "sent = true",
    locks: false,
    arguments: &[],
};

pub(crate) const STATUS: Shape = Shape {
    name: "status",
    table: "outbox",
    mark: "status varchar(20) NOT NULL DEFAULT 'PENDING'",
    written: Some(("status", "'PENDING'")),
    unsent: "status = 'PENDING'",
    set: "status = 'PUBLISHED'",
    locks: true,
    arguments: &["--mark", "status=PUBLISHED", "--unsent", "PENDING"],
};

/// The status is what the poller reads by; the time is for people.
pub(crate) const STATUS_AND_SENT_AT: Shape = Shape {
    name: "status_and_sent_at",
    table: "outbox",
    mark: "status varchar(20) NOT NULL DEFAULT 'NEW', sent_at timestamptz NULL",
    written: None,
    unsent: "status = 'NEW'",
    set: "status = 'SENT', sent_at = now()",
    locks: true,
    arguments: &[],
};

impl Shape {
    pub(crate) fn schema(&self) -> String {
        format!(
            "CREATE TABLE {} (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_id varchar(255) NOT NULL,
             aggregate_type varchar(255) NOT NULL, event_type varchar(255) NOT NULL, payload jsonb NOT NULL,
             created_at timestamptz NOT NULL DEFAULT NOW(), {})",
            self.table, self.mark
        )
    }

    /// Returns the application's statement for one event: id, key, payload.
    pub(crate) fn insert(&self) -> String {
        let (column, value) = self.written.map_or((String::new(), String::new()), |(column, value)| {
            (format!(", {column}"), format!(", {value}"))
        });
        format!(
            "INSERT INTO {} (id, aggregate_id, aggregate_type, event_type, payload{column})
             VALUES ($1::text::uuid, $2, 'order', 'OrderCreated', $3::text::jsonb{value})",
            self.table
        )
    }

    /// Returns outboxd's configuration. It has one partition, so that the order of all records is visible.
    pub(crate) fn config(&self, db: &Outbox) -> (Config, String) {
        let kafka: &Kafka = kafka();
        let topic = db.topic("order_events");
        kafka.create_topic(&topic, 1, &[]);
        let settings = [
            ("table.include.list", format!("public.{}", self.table)),
            ("transforms.outbox.route.topic.replacement", topic.clone()),
            ("snapshot.mode", "no_data".to_owned()),
        ];
        let settings = settings.each_ref().map(|(key, value)| (*key, value.as_str()));
        (with(db.config(kafka), &settings), topic)
    }
}
