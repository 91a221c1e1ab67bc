//! Error answers of the layer.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;

use super::header::MalformedKey;
use crate::idempotency::Answer;

/// `Retry-After` of a request that was taken over: another attempt may finish it at any time.
const TAKEN_OVER_PAUSE: Duration = Duration::from_secs(1);

/// `Retry-After` while the store is unavailable.
const AWAY_PAUSE: Duration = Duration::from_secs(5);

/// Error answer of the layer itself, in the format of RFC 9457.
#[derive(Debug, Clone, Copy)]
pub(super) enum Problem {
    KeyMissing,
    KeyMalformed(MalformedKey),
    /// The name of the caller cannot be part of a key.
    CallerUnusable,
    BodyUnreadable,
    BodyTooLong {
        max: usize,
    },
    InFlight {
        /// Remaining lease of the first request.
        left: Duration,
    },
    OtherRequest,
    AnswerTooLong {
        max: usize,
    },
    AnswerLost,
    TakenOver,
    StoreAway,
}

impl Problem {
    pub(super) fn answer(self) -> Answer {
        let (status, name, title) = self.kind();
        let body = json!({
            "type": format!("urn:problem:idempotency:{name}"),
            "title": title,
            "status": status.as_u16(),
            "detail": self.detail(),
        });
        let mut answer = Answer::new(status.as_u16(), "application/problem+json", body.to_string());
        if let Some(pause) = self.pause() {
            answer.headers.push(("retry-after".to_owned(), whole_seconds(pause).to_string().into_bytes()));
        }
        answer
    }

    fn kind(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::KeyMissing => {
                (StatusCode::BAD_REQUEST, "key-missing", "The header Idempotency-Key is missing")
            }
            Self::KeyMalformed(_) => {
                (StatusCode::BAD_REQUEST, "key-malformed", "The header Idempotency-Key holds no key")
            }
            Self::CallerUnusable => (StatusCode::BAD_REQUEST, "caller-unusable", "The caller cannot be told"),
            Self::BodyUnreadable => {
                (StatusCode::BAD_REQUEST, "body-unreadable", "The body of the request did not arrive")
            }
            Self::BodyTooLong { .. } => {
                (StatusCode::PAYLOAD_TOO_LARGE, "body-too-long", "The body of the request is too long")
            }
            Self::InFlight { .. } => {
                (StatusCode::CONFLICT, "in-flight", "A request with this key is being worked on")
            }
            Self::OtherRequest => {
                (StatusCode::UNPROCESSABLE_ENTITY, "other-request", "This key was used for another request")
            }
            Self::AnswerTooLong { .. } => {
                (StatusCode::INTERNAL_SERVER_ERROR, "answer-too-long", "The answer is too long to be kept")
            }
            Self::AnswerLost => {
                (StatusCode::INTERNAL_SERVER_ERROR, "answer-lost", "The answer was lost on its way")
            }
            Self::TakenOver => (StatusCode::SERVICE_UNAVAILABLE, "taken-over", "The request took too long"),
            Self::StoreAway => {
                (StatusCode::SERVICE_UNAVAILABLE, "store-away", "Requests cannot be remembered now")
            }
        }
    }

    fn detail(self) -> String {
        match self {
            Self::KeyMissing => "Send a key of your own, unique for each thing that you want to be done, \
                                 such as a UUID. Send the same key when you send the request again."
                .to_owned(),
            Self::KeyMalformed(why) => format!("The header is wrong: {why}."),
            Self::CallerUnusable => {
                "Keys are kept for each caller, and this caller's name cannot be kept.".to_owned()
            }
            Self::BodyUnreadable => "Nothing was done. Send the request again.".to_owned(),
            Self::BodyTooLong { max } => format!("At most {max} bytes are taken. Nothing was done."),
            Self::InFlight { .. } => {
                "Send the same request again later, and you will get its answer.".to_owned()
            }
            Self::OtherRequest => {
                "The method, the path or the body differ from the first request with this key. \
                                   Nothing was done. Use a new key for a new request."
                    .to_owned()
            }
            Self::AnswerTooLong { max } => format!(
                "The request was done, but its answer is longer than {max} bytes. It will not be done again."
            ),
            Self::AnswerLost => "Send the same request again.".to_owned(),
            Self::TakenOver => {
                "It was stopped because it was no longer known to be alone at it. Send the same \
                                request again, and you will get its answer."
                    .to_owned()
            }
            Self::StoreAway => "Nothing was done. Send the same request again later.".to_owned(),
        }
    }

    fn pause(self) -> Option<Duration> {
        match self {
            Self::InFlight { left } => Some(left),
            Self::TakenOver => Some(TAKEN_OVER_PAUSE),
            Self::StoreAway => Some(AWAY_PAUSE),
            _ => None,
        }
    }
}

/// Rounds a pause up to whole seconds, the unit of `Retry-After`; at least 1, since 0 would let the client retry at once.
fn whole_seconds(pause: Duration) -> u64 {
    let started = u64::from(pause.subsec_nanos() > 0);
    pause.as_secs().saturating_add(started).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_rounded_up() {
        for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (29_500, 30)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
        }
    }
}
