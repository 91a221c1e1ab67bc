//! Tests of the client against servers that return the requests that they got.

use super::*;
use crate::error::chain;
use crate::http_client::test_server::{certificate, serve, serve_each};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

/// Creates a client without a proxy that does not pause.
pub(in crate::throwaway::fetch) fn client() -> Client {
    Client { tls: connector(None).unwrap(), proxies: Proxies::default(), pause: Duration::ZERO }
}

pub(in crate::throwaway::fetch) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub(in crate::throwaway::fetch) fn answer(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

#[test]
fn redirects_are_followed_to_the_file() {
    let (port, there) = serve_each(vec![answer("200 OK", b"file")]);
    let away = redirect(&format!("http://127.0.0.1:{port}/c?signed=1"));
    let (port, here) = serve_each(vec![redirect("/b"), away]);
    assert_eq!(run(client().get(&format!("http://127.0.0.1:{port}/a"), 4)).unwrap(), b"file");
    let asked = [here.join().unwrap(), there.join().unwrap()].concat();
    for (asked, path) in asked.iter().zip(["/a", "/b", "/c?signed=1"]) {
        assert!(asked.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{asked}");
    }
}

#[test]
fn a_circle_of_redirects_has_an_end() {
    let (port, serving) = serve_each(vec![redirect("/a"); REDIRECTS_MAX + 1]);
    let error = run(client().get(&format!("http://127.0.0.1:{port}/a"), 4)).unwrap_err();
    assert!(matches!(error, FetchError::Redirect { .. }), "{error}");
    serving.join().unwrap();
}

#[test]
fn redirects_lead_neither_to_http_nor_to_nowhere() {
    let https = "https://here:1/a/b";
    let cases = [
        (https, "/c?d=e", Some("https://here:1/c?d=e")),
        (https, "https://there/c?d=e", Some("https://there/c?d=e")),
        (https, "http://here/c", None),
        (https, "//there/c", None),
        (https, "c", None),
        (https, "", None),
        ("http://here/a", "http://there/c", Some("http://there/c")),
        ("http://[::1]:1/a", "/c", Some("http://[::1]:1/c")),
    ];
    for (from, location, expected) in cases {
        assert_eq!(resolve(from, location).as_deref(), expected, "{location}");
    }
}

#[test]
fn what_may_pass_is_tried_again() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfi".to_vec();
    let busy = answer("503 Service Unavailable", b"");
    let (port, serving) = serve_each(vec![busy.clone(), cut, Vec::new(), answer("200 OK", b"file")]);
    assert_eq!(run(client().get(&format!("http://127.0.0.1:{port}/"), 4)).unwrap(), b"file");
    serving.join().unwrap();
    let (port, serving) = serve_each(vec![busy; 4]);
    let error = run(client().get(&format!("http://127.0.0.1:{port}/"), 4)).unwrap_err();
    assert!(matches!(error, FetchError::Status { status: 503, .. }), "{error}");
    serving.join().unwrap();
}

#[test]
fn what_is_not_there_or_too_long_is_asked_for_once() {
    for (given, told) in [
        (answer("404 Not Found", b""), "is answered with HTTP status 404"),
        (answer("200 OK", b"files"), "is longer than 4 bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\nfiles".to_vec(), "is longer than 4 bytes"),
    ] {
        let (port, serving) = serve_each(vec![given]);
        let url = format!("http://127.0.0.1:{port}/file");
        assert_eq!(run(client().get(&url, 4)).unwrap_err().to_string(), format!("{url} {told}"));
        serving.join().unwrap();
    }
}

#[test]
fn a_proxy_is_asked_for_a_tunnel() {
    let (authority, acceptor) = certificate("127.0.0.1");
    let (target, serving) = serve(&text("200 OK", "file"), Some(acceptor));
    let (proxy, passing) = pass_on();
    let url = format!("http://me:p%40ss@127.0.0.1:{proxy}");
    let through = Client {
        tls: connector(Some(authority.as_bytes())).unwrap(),
        proxies: Proxies::read(|name| (name == "https_proxy").then(|| url.clone())),
        pause: Duration::ZERO,
    };
    let found = run(through.get(&format!("https://127.0.0.1:{target}/a"), 4));
    assert_eq!(found.unwrap(), b"file");
    let asked = passing.join().unwrap();
    assert!(asked.starts_with(&format!("CONNECT 127.0.0.1:{target} HTTP/1.1\r\n")), "{asked}");
    assert!(asked.contains("proxy-authorization: Basic bWU6cEBzcw==\r\n"), "{asked}");
    assert!(serving.join().unwrap().starts_with("GET /a HTTP/1.1\r\n"));
}

#[test]
fn a_proxy_that_does_not_help_is_named_without_its_password() {
    let (port, serving) = serve_each(vec![answer("407 Proxy Authentication Required", b""); 4]);
    for (port, told) in [(port, "refuses with HTTP status 407"), (1, "cannot be reached: ")] {
        let url = format!("http://me:secret@127.0.0.1:{port}");
        let proxies = Proxies::read(|name| (name == "https_proxy").then(|| url.clone()));
        let error = run(Client { proxies, ..client() }.get("https://127.0.0.1:1/a", 4)).unwrap_err();
        let told = format!("the proxy at http://127.0.0.1:{port} {told}");
        let chain = chain(&error);
        assert!(chain.contains(&told) && !chain.contains("secret"), "{chain}");
    }
    serving.join().unwrap();
}

fn text(status: &str, body: &str) -> String {
    String::from_utf8(answer(status, body.as_bytes())).unwrap()
}

/// Starts a proxy for one connection, and returns the request.
fn pass_on() -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let passing = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut asked = String::new();
        while !asked.ends_with("\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            asked.push(byte[0].into());
        }
        let target = TcpStream::connect(asked.split(' ').nth(1).unwrap()).unwrap();
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
        let there = copy(client.try_clone().unwrap(), target.try_clone().unwrap());
        copy(target, client).join().unwrap();
        there.join().unwrap();
        asked
    });
    (port, passing)
}

/// Copies until the end, at which a connection may be reset.
fn copy(mut from: TcpStream, mut to: TcpStream) -> JoinHandle<()> {
    thread::spawn(move || {
        drop(io::copy(&mut from, &mut to));
        drop(to.shutdown(Shutdown::Write));
    })
}
