/// A header of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value; Kafka tells a null one from an empty one.
    pub value: Option<Vec<u8>>,
}

/// The headers of a record, in their order. Kafka allows a name more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<Header>);

impl Headers {
    /// The value of the last header of this name, which is the one that Kafka's own clients take.
    #[must_use]
    pub fn last(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().rev().find(|header| header.name == name)?.value.as_deref()
    }

    /// Adds one behind the others.
    pub fn push(&mut self, name: impl Into<String>, value: Option<Vec<u8>>) {
        self.0.push(Header { name: name.into(), value });
    }

    /// The headers in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Header> {
        self.0.iter()
    }

    /// Bytes of all names and values.
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
