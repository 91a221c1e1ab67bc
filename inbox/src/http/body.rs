//! Bodies of requests and answers.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, header};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::idempotency::Answer;

/// Headers that belong to one connection or one moment; they are not stored, and a repeated answer has its own.
const NOT_KEPT: [HeaderName; 8] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::DATE,
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Reason why a body cannot be read.
pub(super) enum NoBody {
    TooLong,
    Unreadable,
}

/// Reads a whole body of at most `max` bytes into memory.
pub(super) async fn whole<B>(body: B, max: usize) -> Result<Bytes, NoBody>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, max).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(NoBody::TooLong),
        Err(_) => Err(NoBody::Unreadable),
    }
}

/// Returns the answer to store, without the headers of [`NOT_KEPT`].
pub(super) fn answer(parts: &http::response::Parts, body: &Bytes) -> Answer {
    let kept = parts.headers.iter().filter(|(name, _)| !NOT_KEPT.contains(name));
    let headers = kept.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
    Answer { status: parts.status.as_u16(), headers: headers.collect(), body: body.to_vec() }
}

impl Answer {
    /// Returns the answer as an HTTP response. A status or header that is not valid in HTTP is skipped, which cannot happen for an answer
    /// that was made from a response.
    #[must_use]
    pub fn into_response<B: From<Bytes>>(self) -> Response<B> {
        let mut response = Response::new(B::from(Bytes::from(self.body)));
        if let Ok(status) = http::StatusCode::from_u16(self.status) {
            *response.status_mut() = status;
        }
        for (name, value) in self.headers {
            let (name, value) = (HeaderName::try_from(name), HeaderValue::try_from(value));
            if let (Ok(name), Ok(value)) = (name, value) {
                response.headers_mut().append(name, value);
            }
        }
        response
    }
}
