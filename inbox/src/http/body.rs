use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, header};
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::idempotency::Answer;

/// Headers of one connection or one moment, which a repeat gets anew.
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

/// Why a body is not there.
pub(super) enum NoBody {
    TooLong,
    Unreadable,
}

/// All of a body, when it is not longer than this.
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

/// The answer to keep.
pub(super) fn answer(parts: &http::response::Parts, body: &Bytes) -> Answer {
    let kept = parts.headers.iter().filter(|(name, _)| !NOT_KEPT.contains(name));
    let headers = kept.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
    Answer { status: parts.status.as_u16(), headers: headers.collect(), body: body.to_vec() }
}

impl Answer {
    /// As a response of HTTP. What cannot be part of one is left out, which is never so with what came from one.
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
