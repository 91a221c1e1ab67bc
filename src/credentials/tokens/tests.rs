//! Tests of tokens and their renewal.

use super::*;
use crate::credentials::Command;

/// Tokens of a shell script, which may take this long.
fn tokens(script: &str, limit_ms: u64) -> Tokens {
    let command = Command::parse(&format!("sh -c '{script}'")).unwrap();
    let source = Source::command("the.command", command).within(Duration::from_millis(limit_ms));
    Tokens::new(source, "kafka:9092")
}

fn answer(fields: &str) -> String {
    format!("n=$(date +%s%N); echo {{\\\"token\\\":\\\"$n\\\"{fields}}}")
}

fn wait_for_other_than(first: &Token, tokens: &Tokens) {
    let asked_at = SystemTime::now();
    while tokens.current().unwrap() == *first {
        assert!(asked_at.elapsed().unwrap() < Duration::from_secs(20));
        thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn clients_share_a_token_until_half_of_its_life_is_over() {
    let tokens = tokens(&answer(",\\\"expires_in\\\":8"), 5_000);
    let first = tokens.current().unwrap();
    assert_eq!(tokens.current().unwrap(), first);
    wait_for_other_than(&first, &tokens);
    let age = first.fetched_at.elapsed().unwrap();
    assert!((Duration::from_secs(4)..Duration::from_secs(8)).contains(&age), "{age:?}");
}

#[test]
fn a_refused_token_is_replaced() {
    let tokens = tokens(&answer(",\\\"expires_in\\\":900"), 5_000);
    let first = tokens.current().unwrap();
    tokens.refuse();
    wait_for_other_than(&first, &tokens);
}

#[test]
fn a_token_without_an_expiry_is_asked_for_again_after_a_minute() {
    let token = Token::new(Credential { value: Secret::new("t"), expires_at: None }, SystemTime::UNIX_EPOCH);
    assert_eq!(token.expires_at, SystemTime::UNIX_EPOCH + LIFE_DEFAULT);
    assert!(!token.is_expiry_known);
}

#[test]
fn a_source_that_hangs_or_fails_is_named_and_holds_no_client_for_long() {
    for (script, limit_ms, expected) in [
        ("sleep 60", 300, "the.command did not answer within 300ms"),
        ("sleep 60", 60_000, "the.command has not answered yet"),
        ("exit 3", 5_000, "the.command: sh failed (exit status: 3)"),
        ("echo {}", 5_000, "the.command: the JSON has no text \"password\", \"token\" or \"access_token\""),
        ("echo e30.eyJleHAiOjF9.c2ln", 5_000, "the.command returned a token that has expired"),
    ] {
        let (tokens, asked_at) = (tokens(script, limit_ms), SystemTime::now());
        assert_eq!(tokens.current().unwrap_err(), expected, "{script}");
        assert!(asked_at.elapsed().unwrap() < FIRST_WAIT + Duration::from_secs(5), "{script}");
    }
}

#[test]
fn a_report_names_the_identity_and_the_expiry() {
    // {"sub":"relay","exp":4102444800}
    let tokens = tokens("echo e30.eyJzdWIiOiJyZWxheSIsImV4cCI6NDEwMjQ0NDgwMH0.c2ln", 5_000);
    assert_eq!(tokens.description(), None);
    tokens.current().unwrap();
    let expected = "a token of the.command for \"relay\", which expires at 2100-01-01T00:00:00Z";
    assert_eq!(tokens.description().as_deref(), Some(expected));
}
