use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::collector::request;

/// A server that keeps what is posted to it. It ends with the test process.
#[derive(Debug)]
pub(crate) struct Hooks {
    port: u16,
    status: Arc<AtomicU16>,
    posts: Arc<Mutex<Vec<Post>>>,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Post {
    /// The request line and the headers, sorted.
    pub(crate) line: String,
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

impl Hooks {
    /// Starts a server that answers with this status until another one is set.
    pub(crate) fn start(status: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let hooks = Self { port, status: Arc::new(AtomicU16::new(status)), posts: Arc::default() };
        let (status, posts) = (Arc::clone(&hooks.status), Arc::clone(&hooks.posts));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (head, body) = request(&stream);
                let mut lines = head.trim_end().lines().map(str::to_owned);
                let line = lines.next().unwrap();
                let mut headers: Vec<_> = lines.collect();
                headers.sort();
                posts.lock().unwrap().push(Post { line, headers, body: String::from_utf8(body).unwrap() });
                let status = status.load(Ordering::Relaxed);
                write!(stream, "HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n").unwrap();
            }
        });
        hooks
    }

    pub(crate) fn answer(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns all posted requests, whatever they were answered with.
    pub(crate) fn posts(&self) -> Vec<Post> {
        self.posts.lock().unwrap().clone()
    }
}
