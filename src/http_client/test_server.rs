//! Servers for tests, which return the requests that they got.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use openssl::asn1::Asn1Time;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::ssl::{SslAcceptor, SslMethod};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509NameBuilder};

/// Starts a server that answers one request with this text, and returns the request.
pub(crate) fn serve(answer: &str, tls: Option<SslAcceptor>) -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = answer.to_owned();
    let serving = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        match tls {
            None => converse(stream, answer.as_bytes()),
            Some(acceptor) => {
                acceptor.accept(stream).map_or_else(|_| String::new(), |s| converse(s, answer.as_bytes()))
            }
        }
    });
    (port, serving)
}

/// Starts a server that sends one of these answers on each connection, in this order, and returns the
/// requests.
pub(crate) fn serve_each(answers: Vec<Vec<u8>>) -> (u16, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let one = move |answer: Vec<u8>| converse(listener.accept().unwrap().0, &answer);
    (port, thread::spawn(move || answers.into_iter().map(one).collect()))
}

fn converse(mut stream: impl Read + Write, answer: &[u8]) -> String {
    let mut asked = String::new();
    let mut buffer = [0; 1024];
    while !is_whole(&asked) {
        let read = stream.read(&mut buffer).unwrap();
        asked.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    stream.write_all(answer).unwrap();
    stream.flush().unwrap();
    asked
}

fn is_whole(asked: &str) -> bool {
    let Some((head, body)) = asked.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0usize)
}

pub(crate) fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// Makes a self-signed certificate for an address, as PEM, and a server that shows it.
pub(crate) fn certificate(ip: &str) -> (String, SslAcceptor) {
    let key: PKey<Private> = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "server").unwrap();
    let name = name.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder.set_subject_name(&name).unwrap();
    builder.set_issuer_name(&name).unwrap();
    builder.set_pubkey(&key).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
    builder.append_extension(BasicConstraints::new().ca().build().unwrap()).unwrap();
    let address = SubjectAlternativeName::new().ip(ip).build(&builder.x509v3_context(None, None)).unwrap();
    builder.append_extension(address).unwrap();
    builder.sign(&key, MessageDigest::sha256()).unwrap();
    let certificate = builder.build();
    let mut acceptor = SslAcceptor::mozilla_intermediate(SslMethod::tls()).unwrap();
    acceptor.set_private_key(&key).unwrap();
    acceptor.set_certificate(&certificate).unwrap();
    (String::from_utf8(certificate.to_pem().unwrap()).unwrap(), acceptor.build())
}
