use std::collections::{BTreeMap, HashMap};

use sha2::{Digest as _, Sha256};

use super::message::{Message, escape};

/// A longer text is named by its digest.
const INLINE_MAX: usize = 60;

/// Puts the messages of one client together to requests.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// The prepared statements: their texts by their names. Names differ from one run to the next.
    statements: HashMap<Vec<u8>, String>,
    lines: Vec<String>,
    texts: BTreeMap<String, String>,
}

/// Messages that are answered up to one ReadyForQuery.
#[derive(Debug)]
pub(super) struct Request {
    /// One line for each message.
    pub(super) text: String,
    /// The long texts that it names by their digests.
    pub(super) texts: BTreeMap<String, String>,
}

impl Request {
    /// Returns whether the request only closes statements and portals. The time at which a client does this depends on
    /// chance.
    pub(super) fn only_closes(&self) -> bool {
        self.text.lines().all(|line| line == "C")
    }
}

impl Requests {
    /// Adds a message; returns the request that ends with it.
    pub(super) fn push(&mut self, message: &Message) -> Option<Request> {
        let body = message.body.as_slice();
        match message.tag {
            b'Q' => {
                // Most have names of the run, and are in one recording only.
                self.lines.push(format!("Q {}", escape(until_zero(body).0)));
                return Some(self.finish());
            }
            b'S' => return Some(self.finish()),
            b'P' => {
                let (name, rest) = until_zero(body);
                let (text, types) = until_zero(rest);
                let text = self.named(text);
                self.lines.push(format!("P {} {text}", escape(types)));
                self.statements.insert(name.to_vec(), text);
            }
            b'B' => {
                let (_, rest) = until_zero(body);
                let (name, values) = until_zero(rest);
                let text = &self.statements[name];
                self.lines.push(format!("B {} {text}", escape(values)));
            }
            b'E' => {
                let (_, limit) = until_zero(body);
                self.lines.push(format!("E {}", escape(limit)));
            }
            b'C' => self.lines.push("C".to_owned()),
            b'D' => self.lines.push(format!("D {}", char::from(body[0]))),
            tag => self.lines.push(format!("{} {}", char::from(tag), escape(body))),
        }
        None
    }

    fn finish(&mut self) -> Request {
        let text = std::mem::take(&mut self.lines).join("\n");
        Request { text, texts: std::mem::take(&mut self.texts) }
    }

    fn named(&mut self, text: &[u8]) -> String {
        let text = escape(text);
        let name = short(&text);
        if name != text {
            self.texts.insert(name.clone(), text);
        }
        name
    }
}

/// Returns the text itself, or the digest of a long one.
pub(super) fn short(text: &str) -> String {
    if text.len() <= INLINE_MAX && !text.starts_with('#') {
        return text.to_owned();
    }
    let digest = Sha256::digest(text.as_bytes());
    let digits: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    format!("#{digits}")
}

fn until_zero(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap();
    (&bytes[..end], &bytes[end + 1..])
}
