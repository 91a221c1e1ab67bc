//! The client against a server that says what it was asked.

use std::fs;
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

use super::{Address, Client, Credentials, Error, Lookup, Options, TlsOptions};
use crate::connect::converter::avro::{Registration, SchemaId, Side};
use crate::error::{Class, Diagnose as _, chain};
use crate::secret::Secret;

/// A server that answers one request with this text; it gives back what it was asked.
fn serve(answer: &str, tls: Option<SslAcceptor>) -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = answer.to_owned();
    let serving = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        match tls {
            None => converse(stream, &answer),
            Some(acceptor) => {
                acceptor.accept(stream).map_or_else(|_| String::new(), |s| converse(s, &answer))
            }
        }
    });
    (port, serving)
}

fn converse(mut stream: impl Read + Write, answer: &str) -> String {
    let mut asked = String::new();
    let mut buffer = [0; 1024];
    while !is_whole(&asked) {
        let read = stream.read(&mut buffer).unwrap();
        asked.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    stream.write_all(answer.as_bytes()).unwrap();
    stream.flush().unwrap();
    asked
}

fn is_whole(asked: &str) -> bool {
    let Some((head, body)) = asked.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0usize)
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

fn options(addresses: &[String]) -> Options {
    Options {
        converter: "value.converter".into(),
        addresses: addresses.iter().map(|url| Address::parse(url).unwrap()).collect(),
        credentials: Some(Credentials::Basic(Secret::new("me:secret"))),
        lookup: Lookup::Register,
        normalize: false,
        tls: TlsOptions::default(),
    }
}

fn registration() -> Registration {
    Registration {
        side: Side::Value,
        topic: "orders".into(),
        subject: "orders-value".into(),
        text: "\"string\"".into(),
        schema: None,
        ids_max: 1,
    }
}

fn ask(options: Options) -> Result<SchemaId, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { Client::new(options)?.id(&registration()).await })
}

#[test]
fn the_next_address_is_asked_when_one_does_not_answer() {
    let (busy, first) = serve(&answer("503 Service Unavailable", ""), None);
    let (port, second) = serve(&answer("200 OK", "{\"id\":7}"), None);
    let urls = [
        "http://127.0.0.1:1".into(),
        format!("http://127.0.0.1:{busy}"),
        format!("http://127.0.0.1:{port}/x"),
    ];
    assert_eq!(ask(options(&urls)).unwrap(), SchemaId(7));
    first.join().unwrap();
    let asked = second.join().unwrap();
    assert!(
        asked.starts_with("POST /x/subjects/orders-value/versions?normalize=false HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(asked.contains("authorization: Basic bWU6c2VjcmV0\r\n"), "{asked}");
    assert!(asked.ends_with("{\"schema\":\"\\\"string\\\"\"}"), "{asked}");
}

#[test]
fn a_server_that_leaves_without_an_answer_is_asked_again_later() {
    for text in ["", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "SSH-2.0\r\n\r\n"] {
        let (port, serving) = serve(text, None);
        let error = ask(options(&[format!("http://127.0.0.1:{port}")])).unwrap_err();
        assert_eq!(error.class(), Class::Transient, "{text:?}: {}", chain(&error));
        serving.join().unwrap();
    }
}

#[test]
fn certificates_are_checked_against_the_truststore() {
    let (certificate, acceptor) = certificate("127.0.0.1");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    fs::write(&file, &certificate).unwrap();
    let attempt = |tls: TlsOptions| {
        let (port, serving) = serve(&answer("200 OK", "{\"id\":9}"), Some(acceptor.clone()));
        let outcome = ask(Options { tls, ..options(&[format!("https://127.0.0.1:{port}")]) });
        serving.join().unwrap();
        outcome
    };
    let named = TlsOptions { truststore: Some(file), ..TlsOptions::default() };
    assert_eq!(attempt(named).unwrap(), SchemaId(9));
    let inline = TlsOptions { certificates: Some(certificate), ..TlsOptions::default() };
    assert_eq!(attempt(inline).unwrap(), SchemaId(9));
    let error = attempt(TlsOptions::default()).unwrap_err();
    assert!(chain(&error).contains("certificate"), "{}", chain(&error));
}

#[test]
fn a_certificate_of_another_host_is_taken_only_when_told() {
    let (certificate, acceptor) = certificate("127.0.0.2");
    let attempt = |any_host: bool| {
        let (port, serving) = serve(&answer("200 OK", "{\"id\":9}"), Some(acceptor.clone()));
        let tls = TlsOptions { certificates: Some(certificate.clone()), any_host, truststore: None };
        let outcome = ask(Options { tls, ..options(&[format!("https://127.0.0.1:{port}")]) });
        serving.join().unwrap();
        outcome
    };
    assert!(attempt(false).is_err());
    assert_eq!(attempt(true).unwrap(), SchemaId(9));
}

#[test]
fn a_truststore_that_cannot_be_read_is_told_at_once() {
    let tls = TlsOptions { truststore: Some("/nowhere/ca.pem".into()), ..TlsOptions::default() };
    let error = Client::new(Options { tls, ..options(&[]) }).unwrap_err();
    assert_eq!(error.class(), Class::Config);
}

/// A self-signed certificate for an address, as PEM, and a server that shows it.
fn certificate(ip: &str) -> (String, SslAcceptor) {
    let key: PKey<Private> = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "registry").unwrap();
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
