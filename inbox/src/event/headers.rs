//! Headers of a record.

/// Header of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Name of the header.
    pub name: String,
    /// Value of the header. `None` is a null value, which Kafka distinguishes from an empty one.
    pub value: Option<Vec<u8>>,
}

/// Headers of a record, in their order. Kafka allows a name more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<Header>);

impl Headers {
    /// Returns the value of the last header of this name, which is the one that Kafka's own clients use.
    #[must_use]
    pub fn last(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().rev().find(|header| header.name == name)?.value.as_deref()
    }

    /// Appends a header.
    pub fn push(&mut self, name: impl Into<String>, value: Option<Vec<u8>>) {
        self.0.push(Header { name: name.into(), value });
    }

    /// Returns the headers in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Header> {
        self.0.iter()
    }

    /// Returns the size of all names and values in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.iter().map(|header| header.name.len() + header.value.as_ref().map_or(0, Vec::len)).sum()
    }
}

impl FromIterator<Header> for Headers {
    fn from_iter<I: IntoIterator<Item = Header>>(headers: I) -> Self {
        Self(headers.into_iter().collect())
    }
}
