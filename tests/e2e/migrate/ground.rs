use std::fs;

use outboxd::internals::throwaway::ThrowawayPostgres;
use uuid::Uuid;

use super::shape::Shape;
use crate::support::outbox::Outbox;
use crate::support::relay::{Config, Relay};
use crate::support::watcher::Watcher;

/// A database with an outbox that is polled, and a configuration for outboxd in a file.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) db: Outbox,
    pub(crate) shape: Shape,
    pub(crate) topic: String,
    pub(crate) config: Config,
    folder: Watcher,
}

impl Ground {
    pub(crate) fn build(server: &ThrowawayPostgres, shape: Shape) -> Self {
        let db = Outbox::create_bare(server, &shape.schema());
        let (config, topic) = shape.config(&db);
        let folder = Watcher::new("outboxd-migrate-");
        let ground = Self { db, shape, topic, config, folder };
        fs::write(ground.file(), serde_json::to_vec(&ground.config).unwrap()).unwrap();
        ground
    }

    pub(crate) fn file(&self) -> String {
        self.folder.folder().join("outbox.json").display().to_string()
    }

    /// Runs `outboxd migrate`.
    pub(crate) fn command(&self, name: &str, more: &[&str]) -> Relay {
        Relay::command(&[&["migrate", name, "-c", &self.file()], self.shape.arguments, more].concat())
    }

    /// Inserts one event like the application.
    pub(crate) fn insert(&self, key: &str) {
        let id = Uuid::now_v7().to_string();
        self.db.query(&self.shape.insert(), &[&id, &key, &"{}"]);
    }

    /// Marks all rows, as a poller that has sent them.
    pub(crate) fn mark(&self) {
        let Shape { table, set, unsent, .. } = self.shape;
        self.db.execute(&format!("UPDATE {table} SET {set} WHERE {unsent}"));
    }
}
