//! Boundaries of a protocol's messages.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;

/// Protocol of the forwarded messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Postgres,
    Kafka,
}

/// Receiver of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Toward {
    Client,
    Server,
}

/// The bytes of one direction, taken apart into messages.
pub(super) struct Gathered {
    protocol: Protocol,
    /// The next message is the one without a type.
    first: bool,
    bytes: Vec<u8>,
    /// Number of consumed bytes.
    taken: usize,
    chunk: Vec<u8>,
}

impl Gathered {
    pub(super) fn new(protocol: Protocol, toward: Toward) -> Self {
        Self {
            protocol,
            first: toward == Toward::Server,
            bytes: Vec::new(),
            taken: 0,
            chunk: vec![0; 64 * 1024],
        }
    }

    /// Reads what is there; false when no more will come.
    pub(super) fn read(&mut self, mut from: &TcpStream) -> bool {
        match from.read(&mut self.chunk) {
            Ok(0) => false,
            Ok(count) => {
                self.bytes.drain(..std::mem::take(&mut self.taken));
                self.bytes.extend_from_slice(&self.chunk[..count]);
                true
            }
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let rest = &self.bytes[self.taken..];
        let length = self.protocol.length(rest, self.first)?;
        let message = rest.get(..length)?.to_vec();
        self.first = false;
        self.taken += length;
        Some(message)
    }
}

impl Protocol {
    /// Returns the length of the message at the beginning; `None` while its head is incomplete. A client's first
    /// message to PostgreSQL has no type.
    fn length(self, bytes: &[u8], first: bool) -> Option<usize> {
        let head = usize::from(self == Self::Postgres && !first);
        let length = bytes.get(head..head + 4)?.try_into().unwrap();
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap();
        Some(if self == Self::Kafka { 4 + length } else { head + length })
    }

    /// Returns the byte in which a flipped bit cannot go unnoticed.
    pub(super) fn weak_byte(self, toward: Toward, message: &mut [u8]) -> Option<&mut u8> {
        match (self, toward) {
            // CopyData, XLogData with three positions, then the pgoutput message's type.
            (Self::Postgres, Toward::Client) if message.first() == Some(&b'd') && message[5] == b'w' => {
                message.get_mut(30)
            }
            // A Produce request ends with its last batch and a few empty lists of tags.
            (Self::Kafka, Toward::Server) if message[4..6] == [0, 0] && message.len() > 300 => {
                let place = message.len() - 20;
                message.get_mut(place)
            }
            _ => None,
        }
    }
}
