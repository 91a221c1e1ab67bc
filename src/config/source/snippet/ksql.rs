//! ksqlDB: `CREATE SOURCE CONNECTOR name WITH ('key' = 'value', …);`.

use std::iter::Peekable;
use std::str::Chars;

use crate::config::source::document::Connector;
use crate::config::source::file::Entry;

/// Returns the connectors that a script creates.
pub(super) fn parse(text: &str) -> Vec<Connector> {
    let mut tokens = Tokens { chars: text.chars().peekable(), line: 1 };
    let mut connectors = Vec::new();
    while let Some(token) = tokens.next() {
        if token.is_word("create") {
            connectors.extend(connector(&mut tokens));
        }
    }
    connectors
}

/// Parses a statement after `CREATE`; `None` if it creates something else.
fn connector(tokens: &mut Tokens<'_>) -> Option<Connector> {
    let mut word = tokens.next()?;
    if word.is_word("source") || word.is_word("sink") {
        word = tokens.next()?;
    }
    if !word.is_word("connector") {
        return None;
    }
    let mut name = tokens.next()?;
    if name.is_word("if") {
        // IF NOT EXISTS
        (_, _, name) = (tokens.next()?, tokens.next()?, tokens.next()?);
    }
    let _with = tokens.next().filter(|with| with.is_word("with"))?;
    let _opened = tokens.next().filter(|opened| opened.text == "(")?;
    let mut entries = Vec::new();
    loop {
        let key = tokens.next()?;
        match (key.kind, key.text.as_str()) {
            (Kind::Sign, ")") => break,
            (Kind::Sign, ",") => continue,
            _ => {}
        }
        let _equals = tokens.next().filter(|equals| equals.text == "=")?;
        entries.push(Entry { key: key.text, value: tokens.next()?.text, line: Some(key.line) });
    }
    if !entries.iter().any(|entry| entry.key == "name") {
        let (key, value) = ("name".to_owned(), name.text.clone());
        entries.push(Entry { key, value, line: Some(name.line) });
    }
    Some(Connector { name: Some(name.text), entries, ..Connector::default() })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Quoted,
    Sign,
}

struct Token {
    kind: Kind,
    text: String,
    line: usize,
}

impl Token {
    fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }
}

struct Tokens<'t> {
    chars: Peekable<Chars<'t>>,
    line: usize,
}

impl Tokens<'_> {
    fn advance(&mut self) -> Option<char> {
        let c = self.chars.next()?;
        self.line = self.line.saturating_add(usize::from(c == '\n'));
        Some(c)
    }

    fn next(&mut self) -> Option<Token> {
        loop {
            let line = self.line;
            let c = self.advance()?;
            let (kind, text) = match c {
                c if c.is_whitespace() => continue,
                '-' if self.chars.peek() == Some(&'-') => {
                    while self.advance().is_some_and(|c| c != '\n') {}
                    continue;
                }
                '\'' | '"' | '`' => (Kind::Quoted, self.quoted(c)),
                c if is_of_word(c) => {
                    let mut text = String::from(c);
                    while let Some(c) = self.chars.next_if(|c| is_of_word(*c)) {
                        text.push(c);
                    }
                    (Kind::Word, text)
                }
                c => (Kind::Sign, c.to_string()),
            };
            return Some(Token { kind, text, line });
        }
    }

    /// Reads up to the closing quote; a doubled quote stands for itself.
    fn quoted(&mut self, quote: char) -> String {
        let mut text = String::new();
        while let Some(c) = self.advance() {
            if c == quote && self.chars.next_if_eq(&quote).is_none() {
                break;
            }
            text.push(c);
        }
        text
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '{' | '}' | '-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_read(text in "(create|source|connector|with|[a-c'\"`=(),; \n-]){0,40}") {
            drop(parse(&text));
        }
    }
}
