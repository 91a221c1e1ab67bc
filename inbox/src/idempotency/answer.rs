//! Stored answers.

/// Version of the encoding, which is the first byte of an encoded answer.
const VERSION: u8 = 1;

/// Answer to a request, which each repeat of the request gets too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status. For an effect without HTTP, a number defined by the service.
    pub status: u16,
    /// Names and values, in order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Body, the bytes after the headers.
    pub body: Vec<u8>,
}

impl Answer {
    /// Creates an answer with a body of this content type.
    #[must_use]
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.as_bytes().to_vec())];
        Self { status, headers, body: body.into() }
    }

    /// Encodes the answer for storage: version, status, number of headers, each name and value behind its length, then the body.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend(self.status.to_be_bytes());
        out.extend(length(self.headers.len()));
        for (name, value) in &self.headers {
            for part in [name.as_bytes(), value] {
                out.extend(length(part.len()));
                out.extend(part);
            }
        }
        out.extend(&self.body);
        out
    }

    /// Decodes an answer that [`Answer::to_bytes`] has encoded; `None` if the bytes are not such an answer.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes.strip_prefix(&[VERSION])?;
        let status = u16::from_be_bytes(*take(rest)?);
        let mut headers = Vec::new();
        for _ in 0..u32::from_be_bytes(*take(rest)?) {
            let name = String::from_utf8(text(rest)?.to_vec()).ok()?;
            headers.push((name, text(rest)?.to_vec()));
        }
        Some(Self { status, headers, body: rest.to_vec() })
    }
}

/// Encodes a length. No part of an answer comes near 4 GB: a longer one becomes [`u32::MAX`], which cannot be decoded.
fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

fn take<'b, const N: usize>(rest: &mut &'b [u8]) -> Option<&'b [u8; N]> {
    let (first, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(first)
}

fn text<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(u32::from_be_bytes(*take(rest)?)).ok()?;
    let (first, others) = rest.split_at_checked(length)?;
    *rest = others;
    Some(first)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            status in any::<u16>(),
            headers in vec((".{0,9}", vec(any::<u8>(), 0..9)), 0..4),
            body in vec(any::<u8>(), 0..40),
        ) {
            let answer = Answer { status, headers, body };
            prop_assert_eq!(Answer::from_bytes(&answer.to_bytes()), Some(answer));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..60)) {
            if let Some(answer) = Answer::from_bytes(&bytes) {
                prop_assert_eq!(answer.to_bytes(), bytes);
            }
        }
    }
}
