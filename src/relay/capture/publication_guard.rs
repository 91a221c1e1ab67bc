//! Polls the catalog beside the stream: PostgreSQL does not report rows that are kept out of it by the publication or a filter.

use std::future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time;

use super::captured::{
    CapturedTable, CapturedTables, Finding, Look, Namesake, Suspicion, SuspicionCause, Watched, interrupted,
    judge, renamed, unpublished,
};
use super::lookout::look;
use super::newcomers::Newcomers;
use super::preflight::Capture;
use crate::error::chain;
use crate::postgres::{Error, PublicationOptions, Sql, TableVersion};
use crate::relay::parts::RelayParts;
use crate::telemetry::{CatalogLook, Status};
use crate::wal::{Lsn, Oid};

/// Interval between two polls of the catalog. A poll is five small queries: 7 ms with 100 partitions, on two
/// busy cores.
const INTERVAL: Duration = Duration::from_secs(1);

/// Pause between two polls as a multiple of the duration of one, up to `INTERVAL_MAX`: with thousands of
/// tables a poll takes long.
const REST: u32 = 20;
const INTERVAL_MAX: Duration = Duration::from_secs(5);

/// Guard that rows written to the captured tables are in the stream. PostgreSQL does not report when they are
/// not: a table that leaves the publication, a filter, an unlogged partition.
#[derive(Debug)]
pub(in crate::relay) struct PublicationGuard {
    verdict: oneshot::Receiver<Error>,
    /// Until the first poll has ended.
    first_poll: Option<oneshot::Receiver<()>>,
    _watcher: JoinSet<()>,
}

/// Task that polls the catalog.
struct Watcher {
    parts: Arc<RelayParts>,
    sql: Arc<Sql>,
    captured: CapturedTables,
    /// True if there was no table at the start: a fault of the publication does no harm yet.
    captures_none: bool,
    version_num: i32,
    status: Status,
    /// No poll of this session has found everything in order yet.
    is_new: bool,
    /// A snapshot follows that settles what is suspected.
    settles: bool,
    /// Notified once the first poll has ended.
    first_poll: Option<oneshot::Sender<()>>,
}

impl PublicationGuard {
    /// Begins to watch, until it is dropped. Suspicions of an earlier process are not reported if the snapshot that settles them follows.
    pub(in crate::relay) fn watch(
        parts: &Arc<RelayParts>,
        sql: &Arc<Sql>,
        capture: &Capture,
        status: &Status,
        settles: bool,
    ) -> Self {
        let ((sender, verdict), (polled, first_poll)) = (oneshot::channel(), oneshot::channel());
        let mut tasks = JoinSet::new();
        let watcher = Watcher {
            parts: Arc::clone(parts),
            sql: Arc::clone(sql),
            captured: capture.known.clone(),
            captures_none: capture.tables.is_empty(),
            version_num: capture.version_num,
            status: status.clone(),
            is_new: true,
            settles,
            first_poll: Some(polled),
        };
        tasks.spawn(async move { drop(sender.send(watcher.watch().await)) });
        Self { verdict, first_poll: Some(first_poll), _watcher: tasks }
    }

    /// Waits until the first poll has found no reason to end the relay. Never returns if it has found one, or was waited for before.
    pub(in crate::relay) async fn first_poll(&mut self) {
        let Some(poll) = &mut self.first_poll else { return future::pending().await };
        let is_in_order = poll.await.is_ok();
        self.first_poll = None;
        if !is_in_order {
            future::pending::<()>().await;
        }
    }

    /// Returns the guard's verdict.
    ///
    /// # Errors
    /// When rows are not in the stream, or may not be.
    pub(in crate::relay) fn check(&mut self) -> Result<(), Error> {
        self.verdict.try_recv().map_or(Ok(()), Err)
    }
}

impl Watcher {
    /// Polls the catalog repeatedly, and returns the error that ends the relay. The poll before may be that
    /// of an earlier session.
    async fn watch(mut self) -> Error {
        let mut newcomers = Newcomers::default();
        // Those of an earlier process, too.
        if !self.settles {
            self.captured.suspicions().into_iter().for_each(|warning| self.warn_again(warning));
        }
        [CatalogLook::Publication, CatalogLook::NewTables]
            .into_iter()
            .for_each(|look| self.status.seen(look, Instant::now()));
        loop {
            let began = Instant::now();
            if self.captures_none {
                self.judged(began);
            } else if let Ok(look) = look(&self.status, CatalogLook::Publication, self.look()).await {
                if let Some(error) = self.judge(&look).await {
                    return error;
                }
                self.judged(began);
            }
            let looking =
                newcomers.look(&self.parts, &self.sql, &self.captured, self.version_num, &self.status);
            drop(look(&self.status, CatalogLook::NewTables, looking).await);
            time::sleep(rest_after(began.elapsed())).await;
        }
    }

    /// Records that a poll that began then has found no reason to end the relay.
    fn judged(&mut self, began: Instant) {
        self.captured.judged(began);
        self.first_poll.take().map(|polled| polled.send(()).ok());
    }

    /// Reports the findings of a poll, and returns the error that ends the relay, if there is one.
    async fn judge(&mut self, look: &Look) -> Option<Error> {
        let before = self.captured.last_look();
        if before.is_none() {
            self.report_selection(look).await;
        }
        self.report_unpublished(before.as_ref(), look);
        let mut ending = None;
        let mut findings = judge(self.watched(), before.as_ref(), look);
        if before.is_none() {
            findings.extend(interrupted(&self.captured, self.watched().publication, look));
        }
        // One for all suspicions of a poll, so that the operator accepts them together.
        let mut found_at = None;
        for finding in findings {
            let finding = self.settle(finding).await;
            if found_at.is_none() && matches!(finding, Finding::Suspect { .. } | Finding::SuspectIfAltered(_))
            {
                found_at = Some(self.wal_end().await);
            }
            ending = self.report(finding, found_at.unwrap_or_default());
            if ending.is_some() {
                break;
            }
        }
        if ending.is_none() {
            self.captured.store_look(look.clone());
            self.learn(look);
            if std::mem::take(&mut self.is_new) || before.as_ref() != Some(look) {
                self.captured.set_published(self.watched().publication, look);
            }
        }
        ending
    }

    fn watched(&self) -> Watched<'_> {
        let PublicationOptions { name, needed, may_lack_tables, .. } = &self.parts.postgres.publication;
        Watched { publication: name, needed, may_lack_tables: *may_lack_tables }
    }

    /// Warns of captured tables that the publication need not publish and does not: once, and again when
    /// there are others.
    fn report_unpublished(&self, before: Option<&Look>, look: &Look) {
        let now = unpublished(look);
        if now.is_empty() || before.is_some_and(|before| unpublished(before) == now) {
            return;
        }
        let (publication, tables) = (self.watched().publication, now.join(", "));
        tracing::warn!(
            publication,
            tables,
            "captured tables are not in the publication: their changes are not sent"
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

    /// Returns the tables that have the name of a captured one: the first was dropped or renamed, and rows
    /// are written to the second.
    async fn namesakes(&self) -> Result<Vec<Namesake>, Error> {
        let roots = self.captured.roots();
        let names: Vec<_> = roots.iter().map(|table| (table.schema.as_str(), table.name.as_str())).collect();
        let found = self.sql.tables_named(&names).await?;
        Ok(Namesake::among(found, &self.captured))
    }

    /// Logs what the publication excludes at a start, which is taken as intended.
    async fn report_selection(&self, look: &Look) {
        let name = &self.parts.postgres.publication.name;
        let Some(publication) = &look.publication else { return };
        self.report_operations(&publication.operations);
        for member in &publication.members {
            let named = look.tables.iter().find(|table| table.oid == member.table).map(TableVersion::quoted);
            let Some(table) = named else { continue };
            if member.filtered && self.is_migrating().await {
                tracing::info!(
                    publication = name,
                    table,
                    "the publication has the row filter of outboxd migrate: excluded rows belong to the \
                     poller"
                );
            } else if member.filtered {
                tracing::warn!(
                    publication = name,
                    table,
                    "row filter of the publication: excluded rows are not sent"
                );
            }
            if member.listed {
                tracing::warn!(
                    publication = name,
                    table,
                    "column list of the publication: excluded columns are not sent"
                );
            }
        }
    }

    /// Returns whether the publication is that of a migration; false if the query fails.
    async fn is_migrating(&self) -> bool {
        let publication = self.sql.publication(&self.parts.postgres.publication.name).await;
        publication.ok().flatten().is_some_and(|publication| publication.handover.is_some())
    }

    /// Warns of operations that would make events, and that the publication does not publish.
    fn report_operations(&self, published: &str) {
        let skipped = self.parts.relay.skipped;
        let wanted = [("update", skipped.update), ("delete", skipped.delete), ("truncate", skipped.truncate)];
        let is_lacking = |name: &str| published.split(", ").all(|operation| operation != name);
        let lacking = wanted.iter().filter(|(name, is_skipped)| !is_skipped && is_lacking(name));
        let operations = lacking.map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        if self.parts.route.changes().is_some() && !operations.is_empty() {
            let Watched { publication, needed, .. } = self.watched();
            let publish = needed.publish();
            let fix = format!("ALTER PUBLICATION \"{publication}\" SET (publish = '{publish}')");
            tracing::warn!(
                publication,
                operations,
                fix,
                "the publication does not publish these operations: they produce no events"
            );
        }
    }

    /// Reads the rows of a table where only they show what has rewritten it. A table that cannot be read is not suspected: TRUNCATE is
    /// frequent, and SET UNLOGGED for a moment is not.
    async fn settle(&self, finding: Finding) -> Finding {
        let Finding::SuspectIfAltered(table) = finding else { return finding };
        let quoted = table.quoted();
        match self.sql.is_rewritten_by_alter(table.oid(), &quoted).await {
            Ok(true) => Finding::Suspect { table, cause: SuspicionCause::Rewritten },
            Ok(false) => Finding::Note(format!(
                "table {quoted} was truncated, or rewritten by VACUUM FULL or CLUSTER: no event is missing"
            )),
            Err(error) => Finding::Note(format!(
                "table {quoted} was truncated or rewritten; its rows, which show by which statement, cannot be read: {}",
                chain(&error)
            )),
        }
    }

    fn report(&self, finding: Finding, found_at: Lsn) -> Option<Error> {
        match finding {
            Finding::End(error) => return Some(error),
            Finding::Suspect { table, cause } => self.suspect(table, Suspicion::new(cause, found_at)),
            Finding::SuspectIfAltered(table) => {
                self.suspect(table, Suspicion::new(SuspicionCause::Rewritten, found_at));
            }
            Finding::Note(note) => tracing::info!("{note}"),
        }
        None
    }

    /// Returns the end of the WAL. If it cannot be read, the stream fails too, and zero will do.
    async fn wal_end(&self) -> Lsn {
        let moment = self.sql.moment(&self.parts.postgres.slot.name).await;
        moment.map(|moment| moment.wal_end).unwrap_or_default()
    }

    /// Stores and reports that rows of a table may be missing.
    fn suspect(&self, table: CapturedTable, suspicion: Suspicion) {
        let warning = suspicion.warning(&table.full_name());
        tracing::error!("{warning}");
        self.status.warn(warning);
        self.captured.suspect(table, suspicion);
    }

    /// Repeats the warning of an earlier session, unless this process has given it.
    fn warn_again(&self, warning: String) {
        if self.status.warn(warning.clone()) {
            tracing::error!("{warning}");
        }
    }

    /// Adds new partitions to the captured tables, and reports tables whose new name is not captured.
    fn learn(&self, look: &Look) {
        self.captured.learn(&look.tables);
        for table in look.tables.iter().filter(|table| table.oid == table.root) {
            let Some(known) = self.captured.get(table.oid) else { continue };
            if self.parts.tables.excluded_by(&table.schema, &table.name).is_some() {
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

    /// A session waits for it beside other things, and begins to wait again after each of them.
    #[tokio::test]
    async fn the_first_poll_is_waited_for_again_and_again() {
        let waits = async |guard: &mut PublicationGuard| {
            time::timeout(Duration::ZERO, guard.first_poll()).await.is_err()
        };
        for in_order in [true, false] {
            let ((_sender, verdict), (polled, first_poll)) = (oneshot::channel(), oneshot::channel());
            let mut guard =
                PublicationGuard { verdict, first_poll: Some(first_poll), _watcher: JoinSet::new() };
            assert!(waits(&mut guard).await && waits(&mut guard).await);
            if in_order {
                polled.send(()).unwrap();
                assert!(!waits(&mut guard).await);
            } else {
                drop(polled);
            }
            assert!(waits(&mut guard).await && waits(&mut guard).await, "{in_order}");
        }
    }

    #[test]
    fn looks_take_a_small_part_of_the_time() {
        let rest = |ms| rest_after(Duration::from_millis(ms)).as_millis();
        assert_eq!([rest(7), rest(120), rest(1_000), rest(60_000)], [1_000, 2_400, 5_000, 5_000]);
    }
}
