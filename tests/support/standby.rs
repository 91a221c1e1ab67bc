use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use outboxd::internals::throwaway::{StopMode, ThrowawayPostgres};

use super::cache::run;
use super::postgres;
use super::session::{Address, Session};
use super::wait::{DEADLINE, eventually};

const PHYSICAL_SLOT: &str = "standby";
const FAILOVER_SLOTS: u16 = 17;

/// A primary, and a standby to which its failover slots are synchronised. The primary sends nothing to logical clients that
/// the standby has not got (`synchronized_standby_slots`).
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) primary: ThrowawayPostgres,
    pub(crate) standby: ThrowawayPostgres,
}

impl Pair {
    /// Starts a primary and its standby. Failover slots exist in PostgreSQL 17 and later.
    pub(crate) fn start(major: u16) -> Self {
        let mut primary = postgres::start(major);
        let session = Session::new(Address::of(&primary, "postgres"));
        session.query("SELECT pg_create_physical_replication_slot($1, true)", &[&PHYSICAL_SLOT]);
        session.disconnect();
        let mut standby = postgres::start(major);
        for server in [&mut primary, &mut standby] {
            server.stop(StopMode::Fast, DEADLINE).unwrap();
        }
        copy(&primary, &standby);
        let primary_conninfo =
            format!("host=127.0.0.1 port={} user={} dbname=postgres", primary.port(), primary.user());
        configure(
            &standby,
            &[
                ("unix_socket_directories", &standby.folder().display().to_string()),
                ("primary_conninfo", &primary_conninfo),
                ("primary_slot_name", PHYSICAL_SLOT),
                ("hot_standby_feedback", "on"),
            ],
        );
        if major >= FAILOVER_SLOTS {
            configure(&primary, &[("synchronized_standby_slots", PHYSICAL_SLOT)]);
        }
        primary.start_again().unwrap();
        standby.start_again().unwrap();
        Self { primary, standby }
    }

    /// Waits until the standby could go on with this slot. It is asked to synchronise, since its worker for that takes naps of
    /// up to 30 s; and a slot is there to stay only once the primary's has moved on.
    #[track_caller]
    pub(crate) fn wait_until_synchronised(&self, slot: &str) {
        let [primary, standby] =
            [&self.primary, &self.standby].map(|server| Session::new(Address::of(server, "postgres")));
        let sql = "SELECT FROM pg_replication_slots WHERE slot_name = $1 AND synced AND NOT temporary";
        eventually(DEADLINE, "the slot is synchronised", || {
            primary.query("SELECT pg_log_standby_snapshot()", &[]);
            // It fails while the slot has not moved on.
            drop(standby.try_execute("SELECT pg_sync_replication_slots()"));
            !standby.query(sql, &[&slot]).is_empty()
        });
    }

    /// Makes the standby a primary.
    pub(crate) fn promote(&self) {
        let session = Session::new(Address::of(&self.standby, "postgres"));
        session.query("SELECT pg_promote()", &[]);
    }
}

/// Replaces the standby's files with the primary's. Both servers are stopped.
fn copy(primary: &ThrowawayPostgres, standby: &ThrowawayPostgres) {
    let [from, to] = [primary, standby].map(|server| server.folder().join("data"));
    fs::remove_dir_all(&to).unwrap();
    run("cp", Command::new("cp").arg("-a").args([&from, &to]));
    for slot in fs::read_dir(to.join("pg_replslot")).unwrap() {
        fs::remove_dir_all(slot.unwrap().path()).unwrap();
    }
    // A copy of any file has the right owner; what is in it does not matter.
    run("cp", Command::new("cp").arg("-a").args([to.join("PG_VERSION"), to.join("standby.signal")]));
}

fn configure(server: &ThrowawayPostgres, settings: &[(&str, &str)]) {
    let path = server.folder().join("data/postgresql.conf");
    let mut file = open_to_append(&path);
    for (name, value) in settings {
        writeln!(file, "{name} = '{value}'").unwrap();
    }
}

fn open_to_append(path: &Path) -> fs::File {
    fs::File::options().append(true).open(path).unwrap()
}
