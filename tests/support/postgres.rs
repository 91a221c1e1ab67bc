use std::env;
use std::path::PathBuf;
use std::sync::LazyLock;

use outboxd::internals::throwaway::{Options, Release, ThrowawayPostgres};

use super::watcher::FOLDER;

static POSTGRES_15: LazyLock<ThrowawayPostgres> = LazyLock::new(|| start(15));
static POSTGRES_18: LazyLock<ThrowawayPostgres> = LazyLock::new(|| start(NEWEST));

/// Major version that is used as the newest PostgreSQL, unless `OUTBOXD_TEST_POSTGRES` names another one.
const NEWEST: u16 = 18;

/// Returns the PostgreSQL 15 that the tests of this process share.
pub(crate) fn postgres15() -> &'static ThrowawayPostgres {
    &POSTGRES_15
}

/// Returns the PostgreSQL 18 that the tests of this process share, or the version that is tested with in its place.
pub(crate) fn postgres18() -> &'static ThrowawayPostgres {
    &POSTGRES_18
}

/// Returns the major version that is started where a test asks for PostgreSQL 18.
pub(crate) fn newest() -> u16 {
    env::var("OUTBOXD_TEST_POSTGRES").map_or(NEWEST, |major| major.parse().unwrap())
}

/// Starts a server of the test's own, which the test can stop and kill.
pub(crate) fn start(major: u16) -> ThrowawayPostgres {
    start_with(major, &[])
}

/// Starts a server with more settings.
pub(crate) fn start_with(major: u16, settings: &[(&str, &str)]) -> ThrowawayPostgres {
    let options = options(major, settings);
    ThrowawayPostgres::start(&options).unwrap_or_else(|error| panic!("PostgreSQL {major}: {error:?}"))
}

/// Returns the options that `start` uses, for a test that changes more than settings.
pub(crate) fn options(major: u16, settings: &[(&str, &str)]) -> Options {
    let ours = [
        ("max_connections", "200"),
        ("max_wal_senders", "60"),
        ("max_replication_slots", "100"),
        ("shared_buffers", "32MB"),
        ("log_replication_commands", "on"),
    ];
    let settings =
        ours.iter().chain(settings).map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let major = if major == NEWEST { newest() } else { major };
    let (release, parent) = (Release::Major(major), env::var_os(FOLDER).map(PathBuf::from));
    Options { release, skip_fsync: true, settings, parent, ..Options::default() }
}
