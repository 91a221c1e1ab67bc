use rdkafka::message::{BorrowedMessage, Headers, Message, Timestamp};

/// A record as a consumer sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    /// In order, with repeated names.
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since 1970, as set by the producer.
    pub(crate) timestamp_ms: i64,
}

impl Record {
    /// Returns topic, partition and offset.
    pub(crate) fn place(&self) -> (&str, i32, i64) {
        (&self.topic, self.partition, self.offset)
    }

    /// Returns the key as text.
    #[track_caller]
    pub(crate) fn key(&self) -> &str {
        text(self.key.as_deref(), "key")
    }

    /// Returns the value as text.
    #[track_caller]
    pub(crate) fn value(&self) -> &str {
        text(self.value.as_deref(), "value")
    }

    /// Returns the last header of this name as text.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let header = self.headers.iter().rev().find(|(other, _)| other == name);
        text(header.and_then(|(_, value)| value.as_deref()), name)
    }
}

impl From<&BorrowedMessage<'_>> for Record {
    fn from(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().into_iter().flat_map(Headers::iter);
        let timestamp_ms = match message.timestamp() {
            Timestamp::CreateTime(ms) | Timestamp::LogAppendTime(ms) => ms,
            Timestamp::NotAvailable => panic!("a record without a timestamp"),
        };
        Self {
            topic: message.topic().to_owned(),
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers.map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec))).collect(),
            timestamp_ms,
        }
    }
}

#[track_caller]
fn text<'a>(bytes: Option<&'a [u8]>, what: &str) -> &'a str {
    let bytes = bytes.unwrap_or_else(|| panic!("no {what}"));
    std::str::from_utf8(bytes).unwrap_or_else(|_| panic!("{what} is not text: {bytes:?}"))
}
