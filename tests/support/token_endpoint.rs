use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::json;

use super::collector::request;
use super::secure_kafka::USER;

/// Endpoint of an identity provider for client credentials (RFC 6749, section 4.4). Its tokens are not signed, and have
/// the lifetime that the test sets. It ends with the test process.
#[derive(Debug)]
pub(crate) struct TokenEndpoint {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl TokenEndpoint {
    /// Starts an endpoint that issues tokens of [`USER`] to a client with this name and secret.
    pub(crate) fn start(client: &str, secret: &str, lifetime: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (port, asked) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<String>>>::default());
        let (shared, login) = (Arc::clone(&asked), BASE64_STANDARD.encode(format!("{client}:{secret}")));
        thread::spawn(move || {
            listener.incoming().for_each(|stream| answer(stream.unwrap(), &login, lifetime, &shared));
        });
        Self { port, asked }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/oauth2/token", self.port)
    }

    /// Returns the bodies of the requests that had the right login.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(mut stream: TcpStream, login: &str, lifetime: Duration, asked: &Mutex<Vec<String>>) {
    let (head, body) = request(&stream);
    let (status, answer) = if head.contains(&format!("Authorization: Basic {login}\r\n")) {
        asked.lock().unwrap().push(String::from_utf8(body).unwrap());
        (
            "200 OK",
            json!({ "access_token": token(lifetime), "token_type": "Bearer", "expires_in": lifetime.as_secs() }),
        )
    } else {
        ("401 Unauthorized", json!({ "error": "invalid_client" }))
    };
    let answer = answer.to_string();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}", answer.len());
    write!(stream, "{head}\r\nConnection: close\r\n\r\n{answer}").unwrap();
}

fn token(lifetime: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let claims = json!({ "sub": USER, "iat": now.as_secs(), "exp": (now + lifetime).as_secs() });
    let [head, claims] =
        [json!({ "alg": "none" }), claims].map(|it| BASE64_URL_SAFE_NO_PAD.encode(it.to_string()));
    format!("{head}.{claims}.")
}
