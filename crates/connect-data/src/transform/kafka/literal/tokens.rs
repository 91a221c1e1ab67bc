//! Tokens of a literal.

/// Characters that are tokens of their own, unless a backslash is before them.
const DELIMITERS: &[u8] = b":,{}[]\"";

/// Reader of tokens: delimiters, and the texts between them.
pub(super) struct Tokens<'t> {
    text: &'t str,
    /// Place behind all tokens that were read.
    end: usize,
    /// Token that was read ahead.
    ahead: Option<&'t str>,
}

impl<'t> Tokens<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text, end: 0, ahead: None }
    }

    /// Returns the place of the next token.
    pub(super) fn position(&self) -> usize {
        self.end.saturating_sub(self.ahead.map_or(0, str::len))
    }

    /// Continues at a place that [`Self::position`] returned.
    pub(super) const fn rewind(&mut self, position: usize) {
        self.end = position;
        self.ahead = None;
    }

    pub(super) const fn is_at_end(&self) -> bool {
        self.ahead.is_none() && self.end >= self.text.len()
    }

    /// Returns the next token; empty at the end.
    pub(super) fn next(&mut self) -> &'t str {
        self.ahead.take().unwrap_or_else(|| self.read())
    }

    /// Returns the text of the next tokens, or none if there are fewer.
    pub(super) fn next_joined(&mut self, count: usize) -> Option<&'t str> {
        let start = self.position();
        for _ in 0..count {
            if self.is_at_end() {
                return None;
            }
            self.next();
        }
        self.text.get(start..self.end)
    }

    /// Reports whether this is the next token, without white space around it. Skips blank tokens before the next one.
    pub(super) fn is_next(&mut self, expected: &str) -> bool {
        if self.is_at_end() {
            return false;
        }
        let mut ahead = self.next();
        while is_blank(ahead) && !self.is_at_end() {
            ahead = self.read();
        }
        self.ahead = Some(ahead);
        trimmed(ahead) == expected
    }

    /// Reads the next token if it is this one.
    pub(super) fn accept(&mut self, expected: &str) -> bool {
        let is_next = self.is_next(expected);
        if is_next {
            self.ahead = None;
        }
        is_next
    }

    fn read(&mut self) -> &'t str {
        let rest = self.text.get(self.end..).unwrap_or_default();
        let mut is_escaped = false;
        let is_delimiter = |byte: u8| {
            let found = DELIMITERS.contains(&byte) && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            found
        };
        let length = match rest.bytes().position(is_delimiter) {
            Some(0) => 1,
            Some(length) => length,
            None => rest.len(),
        };
        self.end = self.end.saturating_add(length);
        rest.get(..length).unwrap_or_default()
    }
}

/// Returns the text without Java's white space (`String.trim`): all characters up to U+0020.
pub(super) fn trimmed(text: &str) -> &str {
    text.trim_matches(|character| character <= ' ')
}

pub(super) fn is_blank(text: &str) -> bool {
    trimmed(text).is_empty()
}
