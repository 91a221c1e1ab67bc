//! Creates the publication, adds tables to it, and compares an existing one with the captured tables.

use postgres_protocol::escape::escape_identifier;

use super::facts::{PublicationFacts, TableFacts};
use crate::postgres::connections::sql::Sql;
use crate::postgres::{Autocreate, Error, HandoverPhase, PublicationOptions, PublishedOperations};

/// SQLSTATE `read_only_sql_transaction`: a standby and a read-only session refuse statements that write.
pub(super) const READ_ONLY: &str = "25006";

/// Operations in PostgreSQL's order.
const OPERATIONS: [&str; 4] = ["insert", "update", "delete", "truncate"];

/// Result for the publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// Existed and is suitable.
    Adopted,
    /// Existed; its tables were set again.
    Altered,
    /// Created.
    Created,
}

impl PublicationOptions {
    /// Creates or adopts the publication for the captured tables, according to `publication.autocreate.mode`.
    ///
    /// # Errors
    /// When it is missing and must not be created, is unsuitable, or the role may not create it.
    pub async fn ensure(&self, sql: &Sql, tables: &[&TableFacts]) -> Result<Publication, Error> {
        match sql.publication(&self.name).await? {
            Some(existing) => self.adopt(sql, &existing, tables).await,
            None => self.create(sql, tables).await,
        }
    }

    /// Drops a publication that this start has created, after a later step failed.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn undo(&self, sql: &Sql) -> Result<(), Error> {
        let name = escape_identifier(&self.name);
        sql.execute("dropping the publication that was just made", &format!("DROP PUBLICATION {name}")).await
    }

    async fn create(&self, sql: &Sql, tables: &[&TableFacts]) -> Result<Publication, Error> {
        let statement = self.create_statement(tables);
        if self.autocreate == Autocreate::Disabled {
            return Err(Error::Precondition {
                problem: format!(
                    "publication {:?} does not exist, and publication.autocreate.mode=disabled forbids making it",
                    self.name
                ),
                fix: format!("{}as the owner of the table: {statement};", primary_first(sql).await?),
            });
        }
        match sql.execute("creating the publication", &statement).await {
            Ok(()) => Ok(Publication::Created),
            Err(error) if error.sqlstate() == Some("42501") => Err(Error::Precondition {
                problem: format!("the role may not create publication {:?}", self.name),
                fix: format!("as the owner of the table: {statement};"),
            }),
            Err(error) if error.sqlstate() == Some(READ_ONLY) => {
                let problem = format!("publication {:?} does not exist", self.name);
                Err(unwritten(sql, &problem, "make", &statement).await?)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the statement that creates the publication for this configuration.
    #[must_use]
    pub fn create_statement(&self, tables: &[&TableFacts]) -> String {
        let name = escape_identifier(&self.name);
        let target = match self.autocreate {
            Autocreate::AllTables => " FOR ALL TABLES".to_owned(),
            Autocreate::NoTables => String::new(),
            // Logical messages need none.
            Autocreate::Disabled | Autocreate::Filtered if tables.is_empty() => String::new(),
            Autocreate::Disabled | Autocreate::Filtered => format!(" FOR TABLE {}", list(tables)),
        };
        let mut settings = Vec::new();
        // The statement for the operator has inserts only: an outbox needs no more.
        let narrow = self.autocreate == Autocreate::Disabled && !self.may_lack_tables;
        match &self.operations {
            PublishedOperations::Listed(operations) if !narrow => {
                settings.push(format!("publish = '{operations}'"));
            }
            PublishedOperations::All if !narrow => {}
            _ => settings.push("publish = 'insert'".to_owned()),
        }
        if self.via_partition_root {
            settings.push("publish_via_partition_root = true".to_owned());
        }
        let with =
            if settings.is_empty() { String::new() } else { format!(" WITH ({})", settings.join(", ")) };
        format!("CREATE PUBLICATION {name}{target}{with}")
    }

    async fn adopt(
        &self,
        sql: &Sql,
        existing: &PublicationFacts,
        tables: &[&TableFacts],
    ) -> Result<Publication, Error> {
        let name = escape_identifier(&self.name);
        if existing.handover.as_ref().is_some_and(|handover| handover.phase == HandoverPhase::Draining) {
            return Err(Error::Precondition {
                problem: format!(
                    "publication {:?} belongs to a migration that has not ended: the poller still has rows to send, and \
                     outboxd would overtake them",
                    self.name
                ),
                fix: "outboxd migrate start -c FILE waits until the poller has sent its last row".to_owned(),
            });
        }
        if self.needed.has_inserts() && !existing.inserts {
            return Err(Error::Precondition {
                problem: format!("publication {:?} does not publish inserts", self.name),
                fix: format!("ALTER PUBLICATION {name} SET (publish = '{}');", self.needed.publish()),
            });
        }
        let missing: Vec<_> = tables.iter().copied().filter(|table| !existing.publishes(table)).collect();
        if missing.is_empty() || self.may_lack_tables {
            return Ok(Publication::Adopted);
        }
        let set = format!("ALTER PUBLICATION {name} ADD TABLE {}", list(&missing));
        if self.autocreate == Autocreate::Filtered {
            match sql.execute("adding tables to the publication", &set).await {
                Err(error) if matches!(error.sqlstate(), Some("42501" | READ_ONLY)) => {}
                outcome => return outcome.map(|()| Publication::Altered),
            }
        }
        Err(Error::Precondition {
            problem: format!("publication {:?} does not publish {}", self.name, list(&missing)),
            fix: format!(
                "{}as the owner of the publication and the table: {set};",
                primary_first(sql).await?
            ),
        })
    }
}

impl PublicationFacts {
    /// Returns the operations that are needed and not published, as `publish` names them.
    #[must_use]
    pub fn lacking(&self, needed: &PublishedOperations) -> Vec<&'static str> {
        let all = OPERATIONS.into_iter();
        all.filter(|name| has(needed.publish(), name) && !has(&self.operations, name)).collect()
    }

    /// Returns the operations that are published or needed, as `publish` names them.
    #[must_use]
    pub fn widened(&self, needed: &PublishedOperations) -> String {
        let all = OPERATIONS.into_iter();
        let all = all.filter(|name| has(needed.publish(), name) || has(&self.operations, name));
        all.collect::<Vec<_>>().join(", ")
    }

    /// Returns whether inserts into this table, or into its partitions, are sent.
    #[must_use]
    pub fn publishes(&self, table: &TableFacts) -> bool {
        let named = |oid| self.tables.contains(&oid);
        self.all_tables
            || named(table.oid)
            || table.root.is_some_and(named)
            || self.published.iter().any(|(schema, name)| *schema == table.schema && *name == table.name)
    }
}

/// Returns the error for a statement that writes, where nothing can be written.
pub(super) async fn unwritten(sql: &Sql, problem: &str, verb: &str, statement: &str) -> Result<Error, Error> {
    let place = primary_first(sql).await?;
    let who = if place.is_empty() {
        "a session whose default_transaction_read_only is on, as this role or its database has it,"
    } else {
        "a standby"
    };
    let problem = format!("{problem}, and {who} cannot {verb} it");
    Ok(Error::Precondition { problem, fix: format!("{place}as the owner of the table: {statement};") })
}

fn has(operations: &str, name: &str) -> bool {
    operations.split(", ").any(|operation| operation == name)
}

/// Returns the place where a statement must be run that a standby refuses.
async fn primary_first(sql: &Sql) -> Result<&'static str, Error> {
    Ok(if sql.server().await?.in_recovery { "on the primary, " } else { "" })
}

fn list(tables: &[&TableFacts]) -> String {
    tables.iter().map(|table| table.quoted()).collect::<Vec<_>>().join(", ")
}
