use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time;

use super::capture::{
    CapturedTable, CapturedTables, Finding, Look, Namesake, Watched, judge, renamed, unpublished,
};
use super::lookout::look;
use super::newcomers::Newcomers;
use super::parts::RelayParts;
use super::preflight::Capture;
use crate::error::chain;
use crate::postgres::{Error, PublicationOptions, Sql, TableVersion};
use crate::telemetry::{CatalogLook, Status};
use crate::wal::Oid;

/// How often the catalog is looked at. A look is five small queries: 7 ms with 100 partitions, on two busy cores.
const INTERVAL: Duration = Duration::from_secs(1);

/// With thousands of tables a look takes long. Then this many times of it pass until the next, up to `INTERVAL_MAX`.
const REST: u32 = 20;
const INTERVAL_MAX: Duration = Duration::from_secs(5);

/// Watches that what is written to the captured tables comes to the stream. The server says nothing when it does not:
/// a table that leaves the publication, a filter, an unlogged partition.
#[derive(Debug)]
pub(super) struct PublicationGuard {
    verdict: oneshot::Receiver<Error>,
    _watcher: JoinSet<()>,
}

/// Who looks.
struct Watcher {
    parts: Arc<RelayParts>,
    sql: Arc<Sql>,
    captured: CapturedTables,
    /// There was no table at the start: what is wrong with the publication harms nobody yet.
    captures_none: bool,
    version_num: i32,
    status: Status,
}

impl PublicationGuard {
    /// Begins to watch, until it is dropped.
    pub(super) fn watch(parts: &Arc<RelayParts>, sql: &Arc<Sql>, capture: &Capture, status: &Status) -> Self {
        let (sender, verdict) = oneshot::channel();
        let mut tasks = JoinSet::new();
        let watcher = Watcher {
            parts: Arc::clone(parts),
            sql: Arc::clone(sql),
            captured: capture.known.clone(),
            captures_none: capture.tables.is_empty(),
            version_num: capture.version_num,
            status: status.clone(),
        };
        tasks.spawn(async move { drop(sender.send(watcher.watch().await)) });
        Self { verdict, _watcher: tasks }
    }

    /// What has been found.
    ///
    /// # Errors
    /// When rows are not in the stream, or may not be.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        self.verdict.try_recv().map_or(Ok(()), Err)
    }
}

impl Watcher {
    /// Looks again and again, and returns with what ends the relay. The look before may be that of an earlier session.
    async fn watch(self) -> Error {
        let mut newcomers = Newcomers::default();
        [CatalogLook::Publication, CatalogLook::NewTables]
            .into_iter()
            .for_each(|look| self.status.seen(look, Instant::now()));
        loop {
            let began = Instant::now();
            if !self.captures_none
                && let Ok(look) = look(&self.status, CatalogLook::Publication, self.look()).await
                && let Some(error) = self.judge(&look).await
            {
                return error;
            }
            let known = (&self.captured, self.version_num);
            let looking = newcomers.look(&self.parts, &self.sql, known, &self.status);
            drop(look(&self.status, CatalogLook::NewTables, looking).await);
            time::sleep(rest_after(began.elapsed())).await;
        }
    }

    /// Tells what a look has found; what ends the relay, if that is among it.
    async fn judge(&self, look: &Look) -> Option<Error> {
        let before = self.captured.looked(look.clone());
        if before.is_none() {
            self.tell_what_is_meant(look).await;
        }
        self.tell_unpublished(before.as_ref(), look);
        let mut ending = None;
        for finding in judge(self.watched(), before.as_ref(), look) {
            ending = self.tell(self.settle(finding).await);
            if ending.is_some() {
                break;
            }
        }
        if ending.is_none() {
            self.learn(look);
        }
        ending
    }

    fn watched(&self) -> Watched<'_> {
        let PublicationOptions { name, needed, may_lack_tables, .. } = &self.parts.postgres.publication;
        Watched { publication: name, needed, may_lack_tables: *may_lack_tables }
    }

    /// Captured tables that the publication does not publish, where it need not: once, and again when there are others.
    fn tell_unpublished(&self, before: Option<&Look>, look: &Look) {
        let now = unpublished(look);
        if now.is_empty() || before.is_some_and(|before| unpublished(before) == now) {
            return;
        }
        let (publication, tables) = (self.watched().publication, now.join(", "));
        tracing::warn!(
            publication,
            tables,
            "captured tables are not in the publication: their changes are not sent until it publishes them"
        );
    }

    async fn look(&self) -> Result<Look, Error> {
        let known = self.captured.list();
        let roots: Vec<Oid> = self.captured.roots().iter().map(CapturedTable::oid).collect();
        let tables = self.sql.table_versions(&roots).await?;
        let mut asked: Vec<Oid> = known.iter().map(CapturedTable::oid).collect();
        asked.extend(tables.iter().flat_map(|table| table.ancestors.iter().copied().chain([table.oid])));
        let name = &self.parts.postgres.publication.name;
        let namesakes = self.namesakes().await?;
        asked.extend(
            namesakes.iter().flat_map(|namesake| namesake.ancestors.iter().copied().chain([namesake.oid])),
        );
        let publication = self.sql.publication_version(name, &asked, self.version_num).await?;
        Ok(Look { publication, tables, namesakes })
    }

    /// Tables that have the name of a captured one: the first was dropped or renamed, and rows are written to the second.
    async fn namesakes(&self) -> Result<Vec<Namesake>, Error> {
        let roots = self.captured.roots();
        let names: Vec<_> = roots.iter().map(|table| (table.schema.as_str(), table.name.as_str())).collect();
        let found = self.sql.tables_named(&names).await?;
        Ok(Namesake::among(found, &self.captured))
    }

    /// What a publication leaves out at a start is meant to be left out.
    async fn tell_what_is_meant(&self, look: &Look) {
        let name = &self.parts.postgres.publication.name;
        let Some(publication) = &look.publication else { return };
        self.tell_operations(&publication.operations);
        for member in &publication.members {
            let named = look.tables.iter().find(|table| table.oid == member.table).map(TableVersion::quoted);
            let Some(table) = named else { continue };
            if member.filtered && self.is_migrating().await {
                tracing::info!(
                    publication = name,
                    table,
                    "outboxd migrate has given the publication its row filter: rows that it leaves out are the poller's"
                );
            } else if member.filtered {
                tracing::warn!(
                    publication = name,
                    table,
                    "a row filter: rows that it leaves out are not sent"
                );
            }
            if member.listed {
                tracing::warn!(
                    publication = name,
                    table,
                    "a column list: columns that it leaves out are not sent"
                );
            }
        }
    }

    /// Whether the publication is that of a migration. When the server does not say, it is not.
    async fn is_migrating(&self) -> bool {
        let publication = self.sql.publication(&self.parts.postgres.publication.name).await;
        publication.ok().flatten().is_some_and(|publication| publication.handover.is_some())
    }

    /// Operations that would make events, and that the publication does not publish.
    fn tell_operations(&self, published: &str) {
        let skipped = self.parts.relay.skipped;
        let wanted = [("update", skipped.update), ("delete", skipped.delete), ("truncate", skipped.truncate)];
        let is_lacking = |name: &str| published.split(", ").all(|operation| operation != name);
        let lacking = wanted.iter().filter(|(name, is_skipped)| !is_skipped && is_lacking(name));
        let operations = lacking.map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        if self.parts.route.changes().is_some() && !operations.is_empty() {
            let Watched { publication, needed, .. } = self.watched();
            let publish = needed.publish();
            let to_fix = format!("ALTER PUBLICATION \"{publication}\" SET (publish = '{publish}')");
            tracing::warn!(
                publication,
                operations,
                to_fix,
                "operations that are not published: they make no events"
            );
        }
    }

    /// Reads the rows of a table where only they show what has rewritten it. A table that cannot be read is not suspected: TRUNCATE is
    /// frequent, and SET UNLOGGED for a moment is not.
    async fn settle(&self, finding: Finding) -> Finding {
        let Finding::SuspectIfAltered { table, quoted, warning } = finding else { return finding };
        match self.sql.is_rewritten_by_alter(table, &quoted).await {
            Ok(true) => Finding::Suspect(warning),
            Ok(false) => Finding::Note(format!(
                "table {quoted} was truncated, or rewritten by VACUUM FULL or CLUSTER: no event is missing"
            )),
            Err(error) => Finding::Note(format!(
                "table {quoted} was truncated or rewritten; its rows, which tell by what, cannot be read: {}",
                chain(&error)
            )),
        }
    }

    fn tell(&self, finding: Finding) -> Option<Error> {
        match finding {
            Finding::End(error) => return Some(error),
            Finding::Suspect(warning) | Finding::SuspectIfAltered { warning, .. } => {
                tracing::error!("{warning}");
                self.status.warn(warning);
            }
            Finding::Note(note) => tracing::info!("{note}"),
        }
        None
    }

    /// New partitions are captured too, and names that are not captured any more are told.
    fn learn(&self, look: &Look) {
        self.captured.learn(&look.tables);
        for table in look.tables.iter().filter(|table| table.oid == table.root) {
            let Some(known) = self.captured.get(table.oid) else { continue };
            if self.parts.tables.left_out_by(&table.schema, &table.name).is_some() {
                renamed(&self.status, &known, &table.schema, &table.name);
            }
        }
    }
}

fn rest_after(look: Duration) -> Duration {
    look.saturating_mul(REST).clamp(INTERVAL, INTERVAL_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_take_a_small_part_of_the_time() {
        let rest = |ms| rest_after(Duration::from_millis(ms)).as_millis();
        assert_eq!([rest(7), rest(120), rest(1_000), rest(60_000)], [1_000, 2_400, 5_000, 5_000]);
    }
}
