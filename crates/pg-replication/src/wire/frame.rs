//! Boundaries of messages in the receive buffer.

use bytes::{Buf, BytesMut};

/// Length of the tag and the length word of a backend message.
const HEADER_BYTES: usize = 5;

/// Free space per read in bytes, enough for many small messages.
pub const READ_BYTES: usize = 256 * 1024;

/// Capacity above which an empty buffer is released, so that one large row does not occupy memory.
const KEEP_BYTES: usize = 1024 * 1024;

/// One backend message: its tag and its body, borrowed from the receive buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The message type byte.
    pub tag: u8,
    /// Bytes after the length word.
    pub body: &'a [u8],
}

/// A message with an invalid length word.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A length less than that of the length word.
    #[error("message {tag:?} announces {length} bytes, less than its length word")]
    TooShort {
        /// The message type byte, as a character.
        tag: char,
        /// Announced length in bytes.
        length: u32,
    },
    /// A length above the limit.
    #[error("message {tag:?} announces {length} bytes, more than the limit of {limit}")]
    TooLong {
        /// The message type byte, as a character.
        tag: char,
        /// Announced length in bytes.
        length: u32,
        /// Limit in bytes.
        limit: usize,
    },
}

/// Buffer of bytes that were received and not yet consumed. Frames are borrowed from it one at a time, without copying.
#[derive(Debug)]
pub struct ReceiveBuffer {
    bytes: BytesMut,
    /// Length of the last returned frame; the next call drops these bytes.
    taken: usize,
    limit: usize,
}

impl ReceiveBuffer {
    /// Returns a buffer that refuses messages of more than `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { bytes: BytesMut::new(), taken: 0, limit }
    }

    /// Returns the next complete message, or `None` if more bytes must be read first.
    ///
    /// # Errors
    /// When the length word is invalid or above the limit. The stream cannot be used then.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        self.release();
        let Some(whole) = self.frame_length()? else { return Ok(None) };
        let (Some(&tag), Some(body)) = (self.bytes.first(), self.bytes.get(HEADER_BYTES..whole)) else {
            return Ok(None);
        };
        self.taken = whole;
        Ok(Some(Frame { tag, body }))
    }

    /// Returns the tag of the message that [`Self::next_frame`] would return, or `None` if it would return none.
    ///
    /// # Errors
    /// As [`Self::next_frame`].
    pub fn next_tag(&mut self) -> Result<Option<u8>, FrameError> {
        self.release();
        let complete = self.frame_length()?.is_some_and(|whole| whole <= self.bytes.len());
        Ok(self.bytes.first().copied().filter(|_| complete))
    }

    /// Returns the buffer to which the next read appends, with room for at least one large read or the rest of an incomplete
    /// message.
    pub fn space(&mut self) -> &mut BytesMut {
        self.release();
        if self.bytes.is_empty() && self.bytes.capacity() > KEEP_BYTES {
            self.bytes = BytesMut::new();
        }
        let missing = self.missing();
        self.bytes.reserve(missing.max(READ_BYTES));
        &mut self.bytes
    }

    /// Reports whether all received bytes were returned in frames.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() <= self.taken
    }

    /// Returns the length of the first message, including its header, once the header is complete.
    fn frame_length(&self) -> Result<Option<usize>, FrameError> {
        let Some(&[tag, a, b, c, d]) = self.bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let (tag, length) = (char::from(tag), u32::from_be_bytes([a, b, c, d]));
        let whole = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(1);
        if whole < HEADER_BYTES {
            return Err(FrameError::TooShort { tag, length });
        }
        if whole > self.limit {
            return Err(FrameError::TooLong { tag, length, limit: self.limit });
        }
        Ok(Some(whole))
    }

    fn release(&mut self) {
        self.bytes.advance(self.taken.min(self.bytes.len()));
        self.taken = 0;
    }

    /// Returns the number of bytes missing from the first message, up to the limit and to twice the bytes received.
    fn missing(&self) -> usize {
        let Some(&[_, a, b, c, d]) = self.bytes.first_chunk::<HEADER_BYTES>() else { return 0 };
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        // The room grows with the received bytes, so that an announced length alone allocates no large buffer.
        length.min(self.limit).saturating_sub(self.bytes.len()).min(self.bytes.len().saturating_mul(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[tag][..], &length.to_be_bytes(), body].concat()
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_they_are_cut(
            frames in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..300)), 0..20),
            cuts in prop::collection::vec(1usize..100, 1..50),
        ) {
            let wire: Vec<u8> = frames.iter().flat_map(|(tag, body)| frame(*tag, body)).collect();
            let mut buffer = ReceiveBuffer::new(1 << 20);
            let (mut seen, mut at) = (Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                if at == wire.len() { break; }
                let end = wire.len().min(at + cut);
                buffer.space().extend_from_slice(&wire[at..end]);
                at = end;
                while let Some(Frame { tag, body }) = buffer.next_frame().unwrap() {
                    seen.push((tag, body.to_vec()));
                }
            }
            prop_assert!(buffer.is_empty());
            prop_assert_eq!(seen, frames);
        }

        #[test]
        fn any_bytes_are_framed_or_refused(bytes: Vec<u8>) {
            let mut buffer = ReceiveBuffer::new(4096);
            buffer.space().extend_from_slice(&bytes);
            while let Ok(Some(_)) = buffer.next_frame() {}
        }
    }

    #[test]
    fn impossible_lengths_are_refused() {
        let mut short = ReceiveBuffer::new(100);
        short.space().extend_from_slice(&[b'd', 0, 0, 0, 3]);
        assert_eq!(short.next_frame(), Err(FrameError::TooShort { tag: 'd', length: 3 }));
        let mut long = ReceiveBuffer::new(100);
        long.space().extend_from_slice(&[b'd', 0xFF, 0xFF, 0xFF, 0xFF]);
        assert_eq!(long.next_frame(), Err(FrameError::TooLong { tag: 'd', length: u32::MAX, limit: 100 }));
    }

    #[test]
    fn an_announced_length_alone_allocates_nothing_large() {
        let mut buffer = ReceiveBuffer::new(1 << 30);
        buffer.space().extend_from_slice(&[b'd', 0x3F, 0xFF, 0xFF, 0x00]);
        assert!(buffer.next_frame().unwrap().is_none());
        assert!(buffer.space().capacity() <= 4 * READ_BYTES);
    }
}
