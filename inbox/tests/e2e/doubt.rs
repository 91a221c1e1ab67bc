//! A transaction whose connection breaks during its commit: the outcome of the commit is unknown.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::shop::{Shop, placed_payments};
use crate::support::kafka::kafka;
use crate::support::postgres::start;
use crate::support::wait::{DEADLINE, eventually};

/// A link to PostgreSQL that can break so that the server does not notice.
struct Link {
    port: u16,
    clients: Arc<Mutex<Vec<TcpStream>>>,
}

impl Link {
    fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let clients = Arc::<Mutex<Vec<TcpStream>>>::default();
        let shared = Arc::clone(&clients);
        thread::spawn(move || {
            // What is never closed.
            let mut servers = Vec::new();
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).unwrap();
                let clone = |stream: &TcpStream| stream.try_clone().unwrap();
                shared.lock().unwrap().push(clone(&client));
                servers.push(clone(&server));
                let (up, down) = ((clone(&client), clone(&server)), (server, client));
                thread::spawn(move || pass(up.0, up.1));
                thread::spawn(move || pass(down.0, down.1));
            }
        });
        Self { port, clients }
    }

    fn break_all(&self) {
        for client in self.clients.lock().unwrap().drain(..) {
            // One that has ended already cannot be shut down.
            client.shutdown(Shutdown::Both).ok();
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer)
        && to.write_all(&buffer[..count]).is_ok()
    {}
}

fn a_commit_without_an_answer(dedupe: &str) {
    let postgres = start(18);
    let shop = Shop::open(&postgres, kafka());
    let server: tokio_postgres::Config = shop.url().parse().unwrap();
    let link = Link::to(server.get_ports()[0]);
    let url = format!(
        "postgres://{}@127.0.0.1:{}/{}",
        server.get_user().unwrap(),
        link.port,
        server.get_dbname().unwrap()
    );
    let events = placed_payments(30, 3);
    shop.produce(&events[..15]);
    let consumer = shop.start_at(&url, &["--dedupe", dedupe]);
    shop.wait_for_applied(15);
    shop.wait_until_committed();
    // A commit waits for a standby that there is not.
    shop.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    shop.execute("SELECT pg_reload_conf()");
    eventually(DEADLINE, "commits wait", || {
        shop.query("SHOW synchronous_standby_names", &[])[0].get::<_, String>(0) == "nobody"
    });
    shop.produce(&events[15..]);
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    eventually(DEADLINE, "a commit waits", || shop.query(waiting, &[])[0].get::<_, i64>(0) >= 3);
    link.break_all();
    eventually(DEADLINE, "what is in doubt has ended", || shop.applied_count() >= 18);
    shop.execute("ALTER SYSTEM RESET synchronous_standby_names");
    shop.execute("SELECT pg_reload_conf()");
    shop.wait_for_applied(30);
    shop.wait_until_committed();
    consumer.stop();
    shop.check(&events);
}

#[test]
fn a_commit_without_an_answer_is_ended_before_its_event_is_begun_again_by_position() {
    a_commit_without_an_answer("position");
}

#[test]
fn a_commit_without_an_answer_is_ended_before_its_event_is_begun_again_by_id() {
    a_commit_without_an_answer("ids");
}

#[test]
fn a_commit_without_an_answer_is_ended_before_its_event_is_begun_again_by_number() {
    a_commit_without_an_answer("sequence");
}
