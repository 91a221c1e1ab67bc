//! Queries of the SQL connection: the server's settings, tables, the publication, the slot.

use tokio_postgres::types::ToSql;

use crate::postgres::connections::sql::Sql;
use crate::postgres::{Error, Handover, SlotName};
use crate::wal::{Lsn, Oid, PgTimestamp, SystemId, TimelineId, Xid};

/// Facts of the server.
#[derive(Debug, Clone)]
pub struct ServerFacts {
    /// `server_version_num`, for instance 180004.
    pub version_num: i32,
    /// `wal_level`.
    pub wal_level: String,
    /// `effective_wal_level` (PostgreSQL 19): the level in force, which rises to `logical` with the first
    /// slot.
    pub effective_wal_level: Option<String>,
    /// True if it is a standby.
    pub in_recovery: bool,
    /// `wal_sender_timeout` in milliseconds; 0 means no timeout.
    pub wal_sender_timeout_ms: i64,
    /// `server_encoding`.
    pub encoding: String,
    /// `max_slot_wal_keep_size` in megabytes; -1 means no limit.
    pub slot_wal_keep_mb: i64,
    /// Free replication slots.
    pub free_slots: i64,
    /// Free walsenders.
    pub free_wal_senders: i64,
    /// `idle_replication_slot_timeout` in seconds (PostgreSQL 18); 0 means no timeout.
    pub idle_slot_timeout_s: i64,
    /// Object id of the database of the connection.
    pub database: Oid,
}

impl ServerFacts {
    /// Reports whether the server writes the WAL that logical decoding needs, now or from the first slot on,
    /// which may take tens of seconds to create.
    #[must_use]
    pub fn can_decode(&self) -> bool {
        self.wal_level == "logical" || self.decodes_on_demand()
    }

    /// Reports whether logical decoding is enabled with the first slot, as in PostgreSQL 19.
    #[must_use]
    pub fn decodes_on_demand(&self) -> bool {
        self.wal_level == "replica" && self.effective_wal_level.is_some()
    }
}

/// A table that logical decoding can send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFacts {
    /// Object id.
    pub oid: Oid,
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// True if it is a partitioned table's root or branch (`relkind = 'p'`).
    pub partitioned: bool,
    /// The topmost table that it is a partition of.
    pub root: Option<Oid>,
    /// True if its changes reach the WAL (`relpersistence = 'p'`).
    pub logged: bool,
    /// Names of its columns.
    pub columns: Vec<String>,
}

/// A publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicationFacts {
    /// `FOR ALL TABLES`.
    pub all_tables: bool,
    /// True if inserts are published.
    pub inserts: bool,
    /// `publish`: the published operations, in PostgreSQL's order.
    pub operations: String,
    /// `publish_via_partition_root`.
    pub via_root: bool,
    /// The tables named in it.
    pub tables: Vec<Oid>,
    /// The tables that it actually publishes (`pg_publication_tables`), leaves or roots.
    pub published: Vec<(String, String)>,
    /// Progress of `outboxd migrate` with it.
    pub handover: Option<Handover>,
}

/// A replication slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotFacts {
    /// `plugin`; `None` for a physical slot.
    pub plugin: Option<String>,
    /// `database`.
    pub database: Option<String>,
    /// `active_pid`.
    pub active_pid: Option<i32>,
    /// The reader's `application_name`, if the role may see it.
    pub application: Option<String>,
    /// The holder's address.
    pub client: Option<String>,
    /// `confirmed_flush_lsn`.
    pub confirmed_flush_lsn: Option<Lsn>,
    /// `restart_lsn`.
    pub restart_lsn: Option<Lsn>,
    /// `wal_status`: reserved, extended, unreserved or lost.
    pub wal_status: Option<String>,
    /// `safe_wal_size` in bytes.
    pub safe_wal_bytes: Option<i64>,
    /// WAL that the slot retains, in bytes.
    pub retained_bytes: i64,
    /// The present end of the WAL.
    pub server_lsn: Lsn,
    /// `invalidation_reason` (PostgreSQL 17): the reason why the slot is unusable. `conflict` is the reason
    /// that 16 reports on a standby.
    pub invalidation_reason: Option<String>,
    /// `inactive_since` (PostgreSQL 17): the time since which no client reads it.
    pub inactive_since: Option<String>,
    /// `two_phase`: true if prepared transactions are sent at PREPARE.
    pub two_phase: bool,
    /// `failover` (PostgreSQL 17): true if standbys have a copy of the slot.
    pub failover: Option<bool>,
}

/// Positions of the slot and of the server, with the server's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The slot's `confirmed_flush_lsn`.
    pub confirmed: Lsn,
    /// The end of the WAL; on a standby the end of the replayed WAL.
    pub wal_end: Lsn,
    /// The server's clock.
    pub clock: PgTimestamp,
}

const MOMENT: &str = "
select confirmed_flush_lsn::text,
       (case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end)::text,
       (extract(epoch from clock_timestamp()) * 1000000)::bigint
from pg_replication_slots where slot_name = $1";

const SERVER: &str = "
select current_setting('server_version_num')::int, current_setting('wal_level'), pg_is_in_recovery(),
       (select setting::bigint from pg_settings where name = 'wal_sender_timeout'),
       current_setting('server_encoding'),
       (select setting::bigint from pg_settings where name = 'max_slot_wal_keep_size'),
       current_setting('max_replication_slots')::bigint - (select count(*) from pg_replication_slots),
       current_setting('max_wal_senders')::bigint - (select count(*) from pg_stat_replication),
       coalesce((select case unit when 'min' then setting::bigint * 60 else setting::bigint end
                 from pg_settings where name = 'idle_replication_slot_timeout'), 0),
       current_setting('effective_wal_level', true),
       (select oid from pg_database where datname = current_database())";

const TABLES: &str = "
select c.oid, n.nspname::text, c.relname::text, c.relkind = 'p', c.relpersistence = 'p',
       (select r.relid::oid from pg_partition_ancestors(c.oid) with ordinality r(relid, ord)
        where c.relispartition order by ord desc limit 1),
       array(select a.attname::text from pg_attribute a
             where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema')
  and n.nspname !~ '^pg_(toast|temp)' order by 2, 3";

const PUBLICATION: &str = "
select p.puballtables, p.pubinsert, p.pubviaroot,
       array(select r.prrelid from pg_publication_rel r where r.prpubid = p.oid order by r.oid),
       array(select t.schemaname::text from pg_publication_tables t where t.pubname = p.pubname order by t.schemaname, t.tablename),
       array(select t.tablename::text from pg_publication_tables t where t.pubname = p.pubname order by t.schemaname, t.tablename),
       obj_description(p.oid, 'pg_publication'),
       concat_ws(', ', case when p.pubinsert then 'insert' end, case when p.pubupdate then 'update' end,
                 case when p.pubdelete then 'delete' end, case when p.pubtruncate then 'truncate' end)
from pg_publication p where p.pubname = $1";

const SLOT: &str = "
select s.plugin::text, s.database::text, s.active_pid, a.application_name, host(a.client_addr),
       s.confirmed_flush_lsn::text, s.restart_lsn::text, s.wal_status, s.safe_wal_size,
       coalesce(pg_wal_lsn_diff(l.lsn, s.restart_lsn), 0)::bigint, l.lsn::text,
       -- Columns that older servers have not got. PostgreSQL 16 calls every slot that is lost a conflicting one.
       coalesce(to_jsonb(s)->>'invalidation_reason',
                case when to_jsonb(s)->>'conflicting' = 'true'
                     then case when s.restart_lsn is null then 'wal_removed' else 'conflict' end end),
       to_jsonb(s)->>'inactive_since', s.two_phase, (to_jsonb(s)->>'failover')::boolean
from pg_replication_slots s
     cross join (select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end as lsn) l
     left join pg_stat_activity a on a.pid = s.active_pid
where s.slot_name = $1";

const HISTORY: &str = "
select s.system_identifier::text, c.timeline_id from pg_control_system() s, pg_control_checkpoint() c";

const INDEX_CONDITIONS: &str = "
select pg_get_expr(indpred, indrelid) from pg_index where indrelid = $1 and indpred is not null order by indexrelid";

const SLOT_XMIN: &str = "select catalog_xmin::text from pg_replication_slots where slot_name = $1";

const SNAPSHOT_TAKER: &str = "
select s.active_pid, a.application_name from pg_replication_slots s join pg_stat_activity a on a.pid = s.active_pid
where s.temporary and s.database = current_database() and split_part(a.application_name, '#', 1) = $1";

impl Sql {
    /// Reads the server's settings.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn server(&self) -> Result<ServerFacts, Error> {
        const DOING: &str = "reading the server's settings";
        let row = one(self.query(DOING, SERVER, &[]).await?, DOING)?;
        let get = |error| Error::sql(DOING, error);
        Ok(ServerFacts {
            version_num: row.try_get(0).map_err(get)?,
            wal_level: row.try_get(1).map_err(get)?,
            in_recovery: row.try_get(2).map_err(get)?,
            wal_sender_timeout_ms: row.try_get(3).map_err(get)?,
            encoding: row.try_get(4).map_err(get)?,
            slot_wal_keep_mb: row.try_get(5).map_err(get)?,
            free_slots: row.try_get(6).map_err(get)?,
            free_wal_senders: row.try_get(7).map_err(get)?,
            idle_slot_timeout_s: row.try_get(8).map_err(get)?,
            effective_wal_level: row.try_get(9).map_err(get)?,
            database: Oid(row.try_get(10).map_err(get)?),
        })
    }

    /// Reads every user table, partitions included.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn tables(&self) -> Result<Vec<TableFacts>, Error> {
        self.tables_of(TABLES, &[]).await
    }

    /// Reads those of these tables that still exist.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn tables_of_oids(&self, oids: &[Oid]) -> Result<Vec<TableFacts>, Error> {
        let query = format!(
            "select * from ({TABLES}) t (oid, schema, name, partitioned, logged, root, columns)
             where t.oid = any($1::oid[])"
        );
        let oids: Vec<u32> = oids.iter().map(|oid| oid.0).collect();
        self.tables_of(&query, &[&oids]).await
    }

    async fn tables_of(&self, query: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<TableFacts>, Error> {
        const DOING: &str = "reading the tables";
        let get = |error| Error::sql(DOING, error);
        let rows = self.query(DOING, query, values).await?;
        rows.iter()
            .map(|row| {
                Ok(TableFacts {
                    oid: Oid(row.try_get(0).map_err(get)?),
                    schema: row.try_get(1).map_err(get)?,
                    name: row.try_get(2).map_err(get)?,
                    partitioned: row.try_get(3).map_err(get)?,
                    logged: row.try_get(4).map_err(get)?,
                    root: row.try_get::<_, Option<u32>>(5).map_err(get)?.map(Oid),
                    columns: row.try_get(6).map_err(get)?,
                })
            })
            .collect()
    }

    /// Reads the publication of this name.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn publication(&self, name: &str) -> Result<Option<PublicationFacts>, Error> {
        const DOING: &str = "reading the publication";
        let get = |error| Error::sql(DOING, error);
        let rows = self.query(DOING, PUBLICATION, &[&name]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let schemas: Vec<String> = row.try_get(4).map_err(get)?;
        let tables: Vec<String> = row.try_get(5).map_err(get)?;
        Ok(Some(PublicationFacts {
            all_tables: row.try_get(0).map_err(get)?,
            inserts: row.try_get(1).map_err(get)?,
            operations: row.try_get(7).map_err(get)?,
            via_root: row.try_get(2).map_err(get)?,
            tables: row.try_get::<_, Vec<u32>>(3).map_err(get)?.into_iter().map(Oid).collect(),
            published: schemas.into_iter().zip(tables).collect(),
            handover: row.try_get::<_, Option<&str>>(6).map_err(get)?.and_then(Handover::parse),
        }))
    }

    /// Reads the slot of this name.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn slot(&self, name: &SlotName) -> Result<Option<SlotFacts>, Error> {
        self.slot_named(name.as_str()).await
    }

    /// Reads the names of all slots of the server.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn slot_names(&self) -> Result<Vec<String>, Error> {
        const DOING: &str = "reading the replication slots";
        let rows =
            self.query(DOING, "select slot_name::text from pg_replication_slots order by 1", &[]).await?;
        rows.iter().map(|row| row.try_get(0).map_err(|error| Error::sql(DOING, error))).collect()
    }

    /// Reads the slot of a valid name.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn slot_named(&self, name: &str) -> Result<Option<SlotFacts>, Error> {
        const DOING: &str = "reading the replication slot";
        let rows = self.query(DOING, SLOT, &[&name]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let get = |error| Error::sql(DOING, error);
        let lsn = |index: usize| -> Result<Option<Lsn>, Error> {
            let text: Option<&str> = row.try_get(index).map_err(get)?;
            Ok(text.and_then(|text| text.parse().ok()))
        };
        Ok(Some(SlotFacts {
            plugin: row.try_get(0).map_err(get)?,
            database: row.try_get(1).map_err(get)?,
            active_pid: row.try_get(2).map_err(get)?,
            application: row.try_get(3).map_err(get)?,
            client: row.try_get(4).map_err(get)?,
            confirmed_flush_lsn: lsn(5)?,
            restart_lsn: lsn(6)?,
            wal_status: row.try_get(7).map_err(get)?,
            safe_wal_bytes: row.try_get(8).map_err(get)?,
            retained_bytes: row.try_get(9).map_err(get)?,
            server_lsn: lsn(10)?.unwrap_or_default(),
            invalidation_reason: row.try_get(11).map_err(get)?,
            inactive_since: row.try_get(12).map_err(get)?,
            two_phase: row.try_get(13).map_err(get)?,
            failover: row.try_get(14).map_err(get)?,
        }))
    }

    /// Returns the cluster's identifier and the timeline of its last checkpoint.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn history(&self) -> Result<(SystemId, TimelineId), Error> {
        const DOING: &str = "reading the server's identifier";
        let get = |error| Error::sql(DOING, error);
        let rows = self.query(DOING, HISTORY, &[]).await?;
        let row =
            rows.first().ok_or(Error::Unexpected { message: "empty answer".to_owned(), doing: DOING })?;
        let (system_id, timeline): (String, i32) =
            (row.try_get(0).map_err(get)?, row.try_get(1).map_err(get)?);
        let timeline = u32::try_from(timeline)
            .map_err(|_| Error::Unexpected { message: format!("timeline {timeline}"), doing: DOING })?;
        Ok((SystemId(system_id), TimelineId(timeline)))
    }

    /// Returns the conditions of a table's partial indexes.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn index_conditions(&self, table: Oid) -> Result<Vec<String>, Error> {
        const DOING: &str = "reading the table's partial indexes";
        let rows = self.query(DOING, INDEX_CONDITIONS, &[&table.0]).await?;
        rows.iter().map(|row| row.try_get(0).map_err(|error| Error::sql(DOING, error))).collect()
    }

    /// Returns the slot's `catalog_xmin`, or `None` if there is no such slot.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn slot_xmin(&self, name: &SlotName) -> Result<Option<Xid>, Error> {
        const DOING: &str = "reading the replication slot's xmin";
        let rows = self.query(DOING, SLOT_XMIN, &[&name.as_str()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let text: Option<&str> = row.try_get(0).map_err(|error| Error::sql(DOING, error))?;
        Ok(text.and_then(|text| text.parse().ok()).map(Xid))
    }

    /// Reads the present positions of the slot and of the server.
    ///
    /// # Errors
    /// When the query fails, or the slot does not exist.
    pub async fn moment(&self, name: &SlotName) -> Result<Moment, Error> {
        const DOING: &str = "reading the slot's position";
        let row = one(self.query(DOING, MOMENT, &[&name.as_str()]).await?, DOING)?;
        let get = |error| Error::sql(DOING, error);
        let lsn = |index: usize| -> Result<Lsn, Error> {
            let text: Option<&str> = row.try_get(index).map_err(get)?;
            Ok(text.and_then(|text| text.parse().ok()).unwrap_or_default())
        };
        let clock = PgTimestamp::from_unix_us(row.try_get(2).map_err(get)?);
        Ok(Moment { confirmed: lsn(0)?, wal_end: lsn(1)?, clock })
    }

    /// Finds the walsender of another session that sends a snapshot before its slot exists. Returns its
    /// process id and its `application_name`, which begins with `application`.
    ///
    /// # Errors
    /// When the query fails.
    pub async fn snapshot_taker(&self, application: &str) -> Result<Option<(i32, String)>, Error> {
        const DOING: &str = "looking for another snapshot";
        let rows = self.query(DOING, SNAPSHOT_TAKER, &[&application]).await?;
        let taker = rows.first().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose();
        taker.map_err(|error| Error::sql(DOING, error))
    }
}

fn one(rows: Vec<tokio_postgres::Row>, doing: &'static str) -> Result<tokio_postgres::Row, Error> {
    rows.into_iter().next().ok_or_else(|| Error::Unexpected { message: "empty answer".to_owned(), doing })
}
