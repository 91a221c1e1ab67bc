//! The login of the first service: a role whose password changes, and the sources that a relay reads it from.

use crate::course::operations::retried;
use crate::support::outbox::Outbox;
use crate::support::relay::{Config, with};
use crate::support::watcher::Watcher;

#[derive(Debug)]
pub(crate) struct Credentials {
    folder: Watcher,
    role: String,
    number: u32,
    source: Source,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    File,
    Command,
    PassFile,
}

impl Credentials {
    pub(crate) fn create(db: &Outbox) -> Self {
        let role = format!("{}_role", db.name());
        let folder = Watcher::new("outboxd-campaign-");
        let credentials = Self { folder, role, number: 1, source: Source::File };
        let Self { role, .. } = &credentials;
        db.execute(&format!("CREATE ROLE {role} LOGIN SUPERUSER PASSWORD '{}'", credentials.password()));
        credentials.write();
        credentials
    }

    pub(crate) fn configure(&self, mut config: Config) -> Config {
        config.remove("database.password");
        let folder = self.folder.folder().display();
        let (key, value) = match self.source {
            Source::File => ("database.password", format!("${{dir:{folder}:password}}")),
            Source::Command => {
                ("outboxd.database.password.command", format!("cat {}", self.folder.path("password")))
            }
            Source::PassFile => ("outboxd.database.passfile", self.folder.path("passfile")),
        };
        with(config, &[("database.user", self.role.as_str()), (key, &value)])
    }

    /// Changes the password in PostgreSQL. No source has it yet.
    pub(crate) fn change(&mut self, db: &Outbox) {
        self.number += 1;
        retried(db, &format!("ALTER ROLE {} PASSWORD '{}'", self.role, self.password()));
    }

    /// Lets each source have the present password.
    pub(crate) fn write(&self) {
        self.folder.replace("password", &self.password());
        self.folder.replace("passfile", &format!("*:*:*:*:{}\n", self.password()));
    }

    /// Ends the sessions of the role.
    pub(crate) fn end_sessions(&self, db: &Outbox) {
        let of_role = format!("usename = '{}'", self.role);
        drop(
            db.try_query(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {of_role}")),
        );
    }

    /// Lets the next configuration read another source.
    pub(crate) fn change_source(&mut self) {
        self.source = match self.source {
            Source::File => Source::Command,
            Source::Command => Source::PassFile,
            Source::PassFile => Source::File,
        };
    }

    fn password(&self) -> String {
        format!("password-{}", self.number)
    }
}
