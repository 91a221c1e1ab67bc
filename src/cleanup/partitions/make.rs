use postgres_protocol::escape::escape_identifier;

use super::pattern::Coming;
use super::take::is_of_the_connection;
use super::tend::Event;
use super::tree::Tree;
use crate::cleanup::pass::YIELDED;
use crate::postgres::{Error, Sql};

impl Tree {
    /// Makes the partitions that lack until there are `ahead`. Nothing that was sent or not has to do with it, so that they come while
    /// Kafka is away too.
    pub(crate) async fn make(
        &self,
        sql: &Sql,
        ahead: usize,
        mut tell: impl FnMut(Event),
    ) -> Result<(), Error> {
        if ahead == 0 {
            return Ok(());
        }
        let coming = match self.coming(ahead) {
            Ok(coming) => coming,
            Err(irregular) => {
                tell(Event::Irregular(irregular));
                return Ok(());
            }
        };
        for coming in coming {
            let name = self.name_of(&coming);
            match self.make_one(sql, &coming).await? {
                None => tell(Event::Made(name)),
                Some(reason) => {
                    tell(Event::NotMade(name, reason));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Makes a table beside the outbox and attaches it, which keeps nobody from writing unless there is a default partition.
    /// `CREATE TABLE … PARTITION OF` would wait for everybody who writes, and everybody after that for it. Says why not.
    async fn make_one(&self, sql: &Sql, coming: &Coming) -> Result<Option<String>, Error> {
        const DOING: &str = "making a partition";
        let Err(error) = sql.execute(DOING, &format!("begin; {}; commit", self.making(coming))).await else {
            return Ok(None);
        };
        let reason = match error.sqlstate() {
            Some(state) if YIELDED.contains(&state) => "somebody has locked the outbox".to_owned(),
            // It is there, rows of its range are in the default partition, the role does not own the outbox.
            Some(state) if !is_of_the_connection(state) => crate::error::chain(&error),
            _ => return Err(error),
        };
        sql.execute("leaving a partition unmade", "rollback").await?;
        Ok(Some(reason))
    }

    /// The statements that make a partition.
    fn making(&self, coming: &Coming) -> String {
        let (schema, quote) = (&self.table.schema, escape_identifier);
        let (table, partition) = (self.table.quoted(), format!("{}.{}", quote(schema), quote(&coming.name)));
        let (lower, upper) = (coming.lower.literal(self.key), coming.upper.literal(self.key));
        format!(
            "create table {partition} (like {table} including all excluding identity); \
             alter table {partition} owner to {}; \
             alter table {table} attach partition {partition} for values from ({lower}) to ({upper})",
            quote(&self.owner)
        )
    }

    /// As messages name a partition that is to come.
    pub(crate) fn name_of(&self, coming: &Coming) -> String {
        format!("{}.{}", self.table.schema, coming.name)
    }
}
