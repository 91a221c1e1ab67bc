use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use serde_json::Value;

use super::wait::{DEADLINE, eventually_some};

/// A page of a status port on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) code: u16,
    pub(crate) body: String,
}

impl Page {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Returns the sample of this series in a page of metrics. The series is written as in the page.
    pub(crate) fn sample(&self, series: &str) -> Option<f64> {
        let value = self.body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map(|value| value.split(' ').next().unwrap_or_default().parse().unwrap())
    }
}

/// Requests a page; returns `None` while no server listens.
pub(crate) fn try_get(port: u16, path: &str) -> Option<Page> {
    ask(port, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

/// Requests a page in another format.
pub(crate) fn try_get_as(port: u16, path: &str, accept: &str) -> Option<Page> {
    ask(
        port,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"),
    )
}

/// Sends any other request, with a JSON body.
#[track_caller]
pub(crate) fn send(port: u16, method: &str, path: &str, body: &str) -> Page {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    ask(port, &request).unwrap_or_else(|| panic!("{method} {path}: no answer"))
}

fn ask(port: u16, request: &str) -> Option<Page> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(request.as_bytes()).ok()?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let code = line.split(' ').nth(1)?.parse().ok()?;
    let mut length = u64::MAX;
    while line != "\r\n" {
        line.clear();
        (reader.read_line(&mut line).ok()? > 0).then_some(())?;
        // Not everybody closes the connection.
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = String::new();
    reader.take(length).read_to_string(&mut body).ok()?;
    Some(Page { code, body })
}

/// Waits until the page is as wanted.
#[track_caller]
pub(crate) fn get_until(port: u16, path: &str, what: &str, wanted: impl Fn(&Page) -> bool) -> Page {
    let mut last = None;
    let look = || {
        last = try_get(port, path);
        last.clone().filter(|page| wanted(page))
    };
    eventually_some(DEADLINE, &format!("{path} {what}"), look)
}
