//! Scripts that run in Redis.

/// Script with the hash that identifies it on a server.
#[derive(Debug)]
pub(crate) struct Script {
    name: &'static str,
    text: &'static str,
    hash: String,
}

impl Script {
    pub(crate) fn new(name: &'static str, text: &'static str) -> Self {
        Self { name, text, hash: redis::Script::new(text).get_hash().to_owned() }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn text(&self) -> &'static str {
        self.text
    }

    pub(super) fn hash(&self) -> &str {
        &self.hash
    }
}
