//! Reads records on a thread, and requests their schemas from the registries.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, spawn_blocking};

use crate::connect::converter::registered::{SchemaId, Side, WrittenSchema};
use crate::error::{Diagnose, Diagnosis, Exit, chain};
use crate::registry::{Error, Registries, Schemas, Written};

/// Maximum number of pending questions: one thread asks, and waits for the answer.
const QUESTIONS_MAX: usize = 1;

/// Time after which long-running commands request a missing schema again.
const ABSENT_FOR: Duration = Duration::from_secs(5);

/// Treatment of a record whose schema the registry does not return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum MissingSchema {
    /// The work ends: nothing may be skipped.
    Fails,
    /// It is not decoded, nor is any other with this schema.
    Unread,
    /// It is not decoded. Later ones may be.
    UnreadForNow,
}

/// Decoder of keys and values for a thread.
#[derive(Debug)]
pub(in crate::cli) struct RecordDecoder {
    schemas: Schemas,
    missing_schema: MissingSchema,
    /// Since when something is remembered as absent.
    absent_since: Option<Instant>,
    asking: mpsc::Sender<Question>,
}

/// Reasons why a record is not read.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum DecodingError {
    #[error(transparent)]
    Registry(#[from] Error),
    /// The result is not needed any more.
    #[error("the thread that does the work was interrupted")]
    Aborted,
}

impl Diagnose for DecodingError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Registry(error) => error.diagnosis(),
            Self::Aborted => Diagnosis::definite(Exit::Precondition),
        }
    }
}

#[derive(Debug)]
struct Question {
    side: Side,
    id: SchemaId,
    answer: oneshot::Sender<Result<Option<WrittenSchema>, Error>>,
}

/// Does work that reads records on a thread of its own.
pub(in crate::cli) async fn run<T: Send + 'static>(
    registries: &Registries,
    missing_schema: MissingSchema,
    work: impl FnOnce(RecordDecoder) -> T + Send + 'static,
) -> Result<T, JoinError> {
    let (asking, mut questions) = mpsc::channel::<Question>(QUESTIONS_MAX);
    let schemas = Schemas::new(registries);
    let decoder = RecordDecoder { schemas, missing_schema, absent_since: None, asking };
    let mut working = spawn_blocking(move || work(decoder));
    loop {
        tokio::select! {
            biased;
            // After its last question there are no further ones.
            outcome = &mut working => return outcome,
            Some(Question { side, id, answer }) = questions.recv() => {
                // The receiver may be dropped by then.
                answer.send(registries.schema(side, id).await).ok();
            }
        }
    }
}

impl RecordDecoder {
    /// Decodes a key or a value.
    pub(in crate::cli) fn read<'b>(
        &mut self,
        side: Side,
        bytes: &'b [u8],
    ) -> Result<Written<'b>, DecodingError> {
        if self.missing_schema == MissingSchema::UnreadForNow
            && self.absent_since.is_some_and(|since| since.elapsed() >= ABSENT_FOR)
        {
            self.schemas.forget_absent();
            self.absent_since = None;
        }
        loop {
            let id = match self.schemas.read(side, bytes) {
                Ok(written) => return Ok(written),
                Err(id) => id,
            };
            match self.ask(side, id) {
                Ok(schema) => {
                    self.schemas.learn(side, id, schema.as_ref());
                    if schema.is_some() {
                        continue;
                    }
                }
                Err(DecodingError::Registry(error)) if self.missing_schema != MissingSchema::Fails => {
                    self.schemas.give_up(side, id, in_one_line(&error));
                }
                Err(error) => return Err(error),
            }
            self.absent_since.get_or_insert_with(Instant::now);
        }
    }

    /// Returns a key or a value as text, or the bytes where it cannot be decoded.
    pub(in crate::cli) fn text<'b>(
        &mut self,
        side: Side,
        bytes: &'b [u8],
    ) -> Result<Cow<'b, [u8]>, DecodingError> {
        Ok(self.read(side, bytes)?.or(bytes))
    }

    /// Does the same, and calls `unread` with the reason when it cannot be decoded.
    pub(in crate::cli) fn known<'b>(
        &mut self,
        side: Side,
        bytes: &'b [u8],
        unread: impl FnOnce(String),
    ) -> Result<Cow<'b, [u8]>, DecodingError> {
        let written = self.read(side, bytes)?;
        if let Written::Unreadable(why) = &written {
            unread(chain(why));
        }
        Ok(written.or(bytes))
    }

    fn ask(&self, side: Side, id: SchemaId) -> Result<Option<WrittenSchema>, DecodingError> {
        let (answer, answered) = oneshot::channel();
        let asked = self.asking.blocking_send(Question { side, id, answer });
        asked.map_err(|_| DecodingError::Aborted)?;
        Ok(answered.blocking_recv().map_err(|_| DecodingError::Aborted)??)
    }
}

/// Returns an error and its fix in one line, as the command continues.
fn in_one_line(error: &Error) -> String {
    let fix = error.fix().map(|fix| format!(" (to fix: {fix})"));
    format!("{}{}", chain(error), fix.unwrap_or_default())
}
