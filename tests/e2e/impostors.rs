//! Fake and malicious servers: their answers are not believed and do no harm.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::{Relay, with};
use crate::support::wait::DEADLINE;

/// Server that answers a client without regard to the client's messages.
#[derive(Debug, Clone)]
struct Impostor {
    /// To the question for TLS.
    tls: &'static [u8],
    /// After the startup message, an answer to each message of the client.
    answers: Vec<Answer>,
}

#[derive(Debug, Clone)]
enum Answer {
    Bytes(Vec<u8>),
    /// SCRAM's challenge, with the client's own nonce in it, and this number of iterations.
    Challenge(u32),
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

fn authentication(kind: u32, more: &[u8]) -> Vec<u8> {
    message(b'R', &[&kind.to_be_bytes(), more].concat())
}

impl Impostor {
    /// Starts the server and returns the port where it listens until the process ends.
    fn start(self) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A client that leaves in the middle is what is wanted.
                drop(self.clone().deceive(client));
            }
        });
        port
    }

    fn deceive(self, mut client: TcpStream) -> std::io::Result<()> {
        let mut first = read(&mut client, 0)?;
        if first[4..8] == 80_877_103_u32.to_be_bytes() {
            client.write_all(self.tls)?;
            first = read(&mut client, 0)?;
        }
        let mut heard = first;
        for answer in self.answers {
            match answer {
                Answer::Bytes(bytes) => client.write_all(&bytes)?,
                Answer::Challenge(iterations) => {
                    let said = String::from_utf8_lossy(&heard).into_owned();
                    let nonce = said.split("r=").nth(1).unwrap_or_default();
                    let challenge = format!("r={nonce}x,s=c2FsdA==,i={iterations}");
                    client.write_all(&authentication(11, challenge.as_bytes()))?;
                }
            }
            heard = read(&mut client, 1)?;
        }
        Ok(())
    }
}

/// Reads a message of the client, whose length follows `head` bytes.
fn read(client: &mut TcpStream, head: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; head + 4];
    client.read_exact(&mut bytes)?;
    let length = u32::from_be_bytes(bytes[head..].try_into().unwrap());
    bytes.resize(head + usize::try_from(length).unwrap(), 0);
    client.read_exact(&mut bytes[head + 4..])?;
    Ok(bytes)
}

#[test]
fn a_server_that_is_no_postgres_is_refused_in_words_that_help() {
    let plain = |bytes: Vec<u8>| Impostor { tls: b"N", answers: vec![Answer::Bytes(bytes)] };
    let pooler = b"SFATAL\0C08P01\0Munsupported startup parameter: replication\0\0";
    let sasl = authentication(10, b"SCRAM-SHA-256\0\0");
    // It knows the dance, and not the password.
    let unproven = Impostor {
        tls: b"N",
        answers: vec![
            Answer::Bytes(sasl.clone()),
            Answer::Challenge(4096),
            Answer::Bytes([authentication(12, b"v=AAAA"), authentication(0, b"")].concat()),
        ],
    };
    // Hours of hashing.
    let endless = Impostor { tls: b"N", answers: vec![Answer::Bytes(sasl), Answer::Challenge(u32::MAX)] };
    let injected = Impostor { tls: b"S\x45\0\0\0\x10SFATAL\0C28P01\0\0", answers: Vec::new() };
    let huge = [b'R', 0x7F, 0xFF, 0xFF, 0xFF].to_vec();
    let cases: [(Impostor, &str, i32, &str); 10] = [
        (plain(message(b'E', pooler)), "prefer", 4, "a pooler without replication"),
        (Impostor { tls: b"H", answers: Vec::new() }, "prefer", 4, "is this a PostgreSQL server?"),
        (injected, "require", 4, "TLS with PostgreSQL"),
        (Impostor { tls: b"N", answers: Vec::new() }, "require", 4, "offers no TLS"),
        (endless, "disable", 4, "too many SCRAM iterations"),
        (unproven, "disable", 4, "did not prove that it has the password"),
        (plain(authentication(10, b"SCRAM-MD4\0\0")), "disable", 4, "SCRAM-MD4"),
        (plain(authentication(7, b"")), "disable", 4, "not supported"),
        (plain(huge), "disable", 1, "cannot be read"),
        (plain(message(b'?', b"what")), "disable", 1, "PostgreSQL sent"),
    ];
    let db = Outbox::create(postgres18());
    thread::scope(|scope| {
        for (impostor, mode, exit, word) in cases {
            let (port, db) = (impostor.start().to_string(), &db);
            scope.spawn(move || {
                let settings = [
                    ("database.port", port.as_str()),
                    ("database.sslmode", mode),
                    ("database.password", "hunter2"),
                    ("outboxd.startup.timeout.ms", "3000"),
                ];
                let mut relay = Relay::start(&with(db.config(kafka()), &settings));
                assert_eq!(relay.wait_for_exit(DEADLINE), exit, "{word}: {}", relay.stderr());
                let said = relay.stderr();
                assert!(said.contains(word) && !said.contains("hunter2"), "{word} is not in {said}");
            });
        }
    });
}
