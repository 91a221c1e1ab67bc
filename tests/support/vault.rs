use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use super::collector::request;

/// Role and secret with which clients log in.
pub(crate) const ROLE: &str = "outboxd-role";
pub(crate) const ROLE_SECRET: &str = "canaryrolesecret";
const TOKEN: &str = "canaryvaulttoken";

/// Stand-in for Vault with one secret, of a key-value engine of version 2 at `secret/`, and logins by AppRole. It ends with the test process.
#[derive(Debug)]
pub(crate) struct VaultServer {
    port: u16,
    /// None while it is sealed.
    secret: Arc<Mutex<Option<Value>>>,
}

impl VaultServer {
    pub(crate) fn start(secret: Value) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (port, secret) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Some(secret))));
        let shared = Arc::clone(&secret);
        thread::spawn(move || {
            listener.incoming().for_each(|stream| answer(stream.unwrap(), shared.lock().unwrap().as_ref()));
        });
        Self { port, secret }
    }

    /// Replaces the secret; without one, Vault is sealed.
    pub(crate) fn set(&self, secret: Option<Value>) {
        *self.secret.lock().unwrap() = secret;
    }

    /// Returns the variables of a client.
    pub(crate) fn variables(&self) -> [(&'static str, String); 3] {
        [
            ("VAULT_ADDR", format!("http://127.0.0.1:{}", self.port)),
            ("VAULT_ROLE_ID", ROLE.to_owned()),
            ("VAULT_SECRET_ID", ROLE_SECRET.to_owned()),
        ]
    }
}

fn answer(mut stream: TcpStream, secret: Option<&Value>) {
    let (head, body) = request(&stream);
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let line = head.lines().next().unwrap_or_default();
    let (status, answer) = match secret {
        None => ("503 Service Unavailable", json!({ "errors": ["Vault is sealed"] })),
        Some(_) if line.starts_with("POST /v1/auth/approle/login ") => {
            match body == json!({ "role_id": ROLE, "secret_id": ROLE_SECRET }) {
                true => ("200 OK", json!({ "auth": { "client_token": TOKEN, "lease_duration": 600 } })),
                false => ("400 Bad Request", json!({ "errors": ["invalid role or secret ID"] })),
            }
        }
        Some(_) if !head.to_lowercase().contains(&format!("x-vault-token: {TOKEN}\r\n")) => {
            ("403 Forbidden", json!({ "errors": ["permission denied"] }))
        }
        Some(secret) if line.starts_with("GET /v1/secret/data/orders/db ") => {
            ("200 OK", json!({ "data": { "data": secret, "metadata": { "version": 1 } } }))
        }
        // No policy allows another path, not even that of the tools.
        Some(_) => ("403 Forbidden", json!({ "errors": ["permission denied"] })),
    };
    let answer = answer.to_string();
    let length = answer.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{answer}")
        .unwrap();
}
