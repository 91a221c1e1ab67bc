//! No session of outboxd runs what another user has made under the name of one of PostgreSQL's own functions, operators, types or tables
//! (CVE-2018-1058), while the statements of its user have the role's own `search_path`.

use std::collections::BTreeSet;
use std::fs;

use crate::signals;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres18, start};
use crate::support::relay::{Config, Relay, with};
use crate::support::session::{Address, Session};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

/// Look-alikes of each function, operator, relation and of some types in `pg_catalog`, in `public`, which the role searches first.
/// Some fit the types better than PostgreSQL's own. One that is run leaves a trace that no rollback removes.
const LOOK_ALIKES: &str = include_str!("look_alikes.sql");

/// Objects that a user may create: their functions rely on the role's own `search_path`.
const OF_THE_USER: &str = "
    CREATE TABLE touched (by text);
    CREATE FUNCTION touch(what text) RETURNS void LANGUAGE sql AS $$ INSERT INTO public.touched VALUES (what) $$;
    CREATE FUNCTION chosen(v int) RETURNS boolean LANGUAGE sql AS $$ SELECT v OPERATOR(pg_catalog.>) 0 $$;";

/// Creates the role of the relay. The test's own session has another one, which searches PostgreSQL's objects first.
fn searching_public_first(db: &Outbox, config: Config) -> Config {
    let role = format!("{}_role", db.name());
    db.execute(&format!(
        "CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'secret';
         ALTER ROLE {role} IN DATABASE {} SET search_path = public, pg_catalog;",
        db.name()
    ));
    db.execute(OF_THE_USER);
    db.execute(LOOK_ALIKES);
    let config = with(config, &[("database.user", &role), ("database.password", "secret")]);
    // The traps are set: what the catalog has is not what this session gets.
    let address = Address { user: role, password: Some("secret".to_owned()), ..db.address().clone() };
    assert!(Session::new(address).try_query("SELECT concat_ws('a', 'b', 'c')").is_err());
    db.execute("SELECT pg_catalog.setval('public.trapped', 1, false)");
    config
}

/// Asserts an *invariant:* every name in a statement of outboxd means an object of `pg_catalog`, whatever the role's
/// `search_path` is.
#[track_caller]
fn assert_none_was_run(db: &Outbox, said: &str) {
    let runs: bool = db.query("SELECT is_called FROM public.trapped", &[])[0].get(0);
    assert!(!runs && !said.contains("a look-alike"), "{said}");
}

fn touched(db: &Outbox) -> BTreeSet<String> {
    db.query("SELECT by FROM public.touched", &[]).iter().map(|row| row.get(0)).collect()
}

#[test]
fn an_outbox_is_relayed_and_cleaned_up_without_look_alikes() {
    // Servers of its own: cleanup waits for old transactions of any database.
    for server in [start(15), start(18)] {
        let db = Outbox::create(&server);
        db.execute("CREATE TABLE kept (LIKE outbox)");
        let settings = [
            ("heartbeat.interval.ms", "100"),
            ("heartbeat.action.query", "SELECT touch('heartbeat')"),
            ("database.initial.statements", "SELECT touch('initial')"),
            ("outboxd.cleanup.enable", "true"),
            ("outboxd.cleanup.before.slot", "delete"),
            ("outboxd.cleanup.interval.ms", "100"),
            ("outboxd.cleanup.archive.table", "kept"),
        ];
        let config = searching_public_first(&db, with(db.config(kafka()), &settings));
        let mut relay = Relay::start(&config);
        db.wait_until_streaming();
        db.insert(&[Event::new("order", "1", "OrderCreated", "{}")]);
        assert_eq!(kafka().read(&db.topic("order"), 1).len(), 1);
        eventually(DEADLINE, "the row is archived", || {
            assert!(relay.is_running(), "{}", relay.stderr());
            !db.query("SELECT FROM kept", &[]).is_empty()
        });
        eventually(DEADLINE, "the user's statements have found their function", || {
            touched(&db) == ["heartbeat", "initial"].map(str::to_owned).into()
        });
        run_commands(&db, &config);
        assert_none_was_run(&db, &relay.stop_and_tell());
    }
}

#[test]
fn snapshots_and_signals_run_no_look_alikes() {
    let db = Outbox::create_bare(postgres18(), signals::TABLES);
    db.execute("CREATE TABLE b (id int PRIMARY KEY, v int, of regclass)");
    db.execute("INSERT INTO b VALUES (1, 1, 'public.a'), (2, -1, NULL)");
    db.execute("INSERT INTO a SELECT n, n % 7, n FROM generate_series(1, 200) n");
    let settings = [
        ("snapshot.mode", "initial"),
        ("snapshot.max.threads", "2"),
        ("include.unknown.datatypes", "true"),
        ("snapshot.select.statement.overrides", "public.b"),
        ("snapshot.select.statement.overrides.public.b", "SELECT id, v, of FROM b WHERE chosen(v)"),
    ];
    let config = searching_public_first(&db, signals::config(&db, &settings));
    signals::make_topics(&db);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    let topic = format!("{}.public.b", db.name());
    let read = kafka().read(&topic, 1);
    // As the role sees it: `public` is in its search_path.
    assert!(read[0].value().contains("\"of\":\"YQ==\""), "{}", read[0].value());
    db.execute("INSERT INTO b VALUES (3, 1, 'public.a')");
    assert!(kafka().read(&topic, 2)[1].value().contains("\"of\":\"YQ==\""));

    let data = r#"{"data-collections": ["public.a"], "type": "incremental",
                   "additional-conditions": [{"data-collection": "public.a", "filter": "chosen(v)"}]}"#;
    signals::signal(&db, "1", "execute-snapshot", data);
    signals::wait_until_told(&db, "COMPLETED");
    eventually(DEADLINE, "the incremental snapshot has all rows", || {
        signals::count_of(&db, "incremental") == 200
    });
    let data = r#"{"data-collections": ["public.a"], "type": "blocking",
                   "additional-conditions": [{"data-collection": "public.a", "filter": "SELECT * FROM a WHERE chosen(v)"}]}"#;
    let before = signals::count_of(&db, "true");
    signals::signal(&db, "2", "execute-snapshot", data);
    eventually(DEADLINE, "the blocking snapshot has its rows", || {
        signals::count_of(&db, "true") > before + 190
    });
    run_commands(&db, &config);
    assert_none_was_run(&db, &relay.stop_and_tell());
}

/// Runs the commands that read the catalog or the tables.
fn run_commands(db: &Outbox, config: &Config) {
    let watcher = Watcher::new("outboxd-look-alikes-");
    let file = watcher.folder().join("config.json");
    fs::write(&file, serde_json::to_vec(config).unwrap()).unwrap();
    let file = file.to_str().unwrap();
    for command in
        [&["check"][..], &["status"], &["slot", "ls"], &["verify"], &["cleanup"], &["explain", "1"]]
    {
        let arguments: Vec<_> = command.iter().copied().chain(["-c", file]).collect();
        let mut process = Relay::command(&arguments);
        process.wait_for_exit(DEADLINE);
        let said = format!("{command:?}: {}{}", process.stdout(), process.stderr());
        assert_none_was_run(db, &said);
        assert!(!said.contains("(SQLSTATE 42"), "{said}");
    }
}
