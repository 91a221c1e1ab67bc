//! Reads records on a thread, and asks the schema registries for what it takes.

use std::borrow::Cow;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, spawn_blocking};

use crate::connect::converter::registered::{SchemaId, Side, WrittenSchema};
use crate::error::{Class, Diagnose, Exit};
use crate::registry::{Error, Registries, Schemas, Written};

/// One thread asks, and waits for the answer.
const QUESTIONS_MAX: usize = 1;

/// What a thread reads keys and values with.
#[derive(Debug)]
pub(super) struct RecordDecoder {
    schemas: Schemas,
    asking: mpsc::Sender<Question>,
}

/// Why a record is not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecodingError {
    #[error(transparent)]
    Registry(#[from] Error),
    /// Nobody waits for what the thread reads.
    #[error("the thread that does the work was aborted")]
    Aborted,
}

impl Diagnose for DecodingError {
    fn class(&self) -> Class {
        match self {
            Self::Registry(error) => error.class(),
            Self::Aborted => Class::Definite,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Registry(error) => error.exit(),
            Self::Aborted => Exit::Precondition,
        }
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::Registry(error) => error.cure(),
            Self::Aborted => None,
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
pub(super) async fn run<T: Send + 'static>(
    registries: &Registries,
    work: impl FnOnce(RecordDecoder) -> T + Send + 'static,
) -> Result<T, JoinError> {
    let (asking, mut questions) = mpsc::channel::<Question>(QUESTIONS_MAX);
    let decoder = RecordDecoder { schemas: Schemas::new(registries), asking };
    let mut working = spawn_blocking(move || work(decoder));
    loop {
        tokio::select! {
            biased;
            // Behind its last question nothing is asked.
            outcome = &mut working => return outcome,
            Some(Question { side, id, answer }) = questions.recv() => {
                // It may be gone by then.
                answer.send(registries.schema(side, id).await).ok();
            }
        }
    }
}

impl RecordDecoder {
    /// What a key or a value says.
    pub(super) fn read<'b>(&mut self, side: Side, bytes: &'b [u8]) -> Result<Written<'b>, DecodingError> {
        loop {
            let id = match self.schemas.read(side, bytes) {
                Ok(written) => return Ok(written),
                Err(id) => id,
            };
            let schema = self.ask(side, id)?;
            self.schemas.learn(side, id, schema.as_ref());
        }
    }

    /// The same as text, or as it is where nobody can tell.
    pub(super) fn text<'b>(&mut self, side: Side, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>, DecodingError> {
        Ok(self.read(side, bytes)?.or(bytes))
    }

    fn ask(&self, side: Side, id: SchemaId) -> Result<Option<WrittenSchema>, DecodingError> {
        let (answer, answered) = oneshot::channel();
        let asked = self.asking.blocking_send(Question { side, id, answer });
        asked.map_err(|_| DecodingError::Aborted)?;
        Ok(answered.blocking_recv().map_err(|_| DecodingError::Aborted)??)
    }
}
