//! `errors.tolerance` and `event.processing.failure.handling.mode`: whether a row without an event is skipped.

use crate::error::chain;
use crate::relay::error::Error;
use crate::relay::options::{Options, ProcessingFailure};

/// Configuration of the rows without an event that are skipped.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct Tolerance {
    /// `errors.tolerance=all`: every one.
    all: bool,
    /// `event.processing.failure.handling.mode`: those that cannot be read.
    unreadable: ProcessingFailure,
}

impl Tolerance {
    pub(in crate::relay) const fn new(options: &Options) -> Self {
        Self { all: options.tolerate_rows, unreadable: options.unreadable_rows }
    }

    /// Returns whether any row may be skipped.
    pub(in crate::relay) const fn is_for_all(self) -> bool {
        self.all
    }

    /// Logs a row that is skipped, or returns its error: then it ends the relay.
    pub(in crate::relay) fn skip(self, error: Error) -> Result<(), Error> {
        let is_unreadable = matches!(&error, Error::Row { source, .. } if source.is_unreadable());
        match (self.all, is_unreadable, self.unreadable) {
            (true, ..) => {
                tracing::error!(error = chain(&error), "a row is skipped: errors.tolerance=all");
            }
            (false, true, ProcessingFailure::Warn) => {
                let reason = "event.processing.failure.handling.mode=warn";
                tracing::warn!(error = chain(&error), "a row is skipped: {reason}");
            }
            (false, true, ProcessingFailure::Skip) => {
                tracing::debug!(error = chain(&error), "a row is skipped");
            }
            _ => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::column::ColumnError;
    use crate::outbox::RouteError;
    use crate::transaction::EventPosition;
    use crate::wal::Lsn;

    #[test]
    fn only_what_the_user_chose_is_skipped() {
        use ProcessingFailure::{Fail, Skip, Warn};
        let cases = [
            (false, Fail, false, false),
            (false, Warn, false, true),
            (false, Skip, false, true),
            (true, Fail, true, true),
            (true, Warn, true, true),
        ];
        for (all, unreadable, routing, reading) in cases {
            let tolerance = Tolerance { all, unreadable };
            assert_eq!(tolerance.skip(error(false)).is_ok(), routing, "{tolerance:?}");
            assert_eq!(tolerance.skip(error(true)).is_ok(), reading, "{tolerance:?}");
        }
    }

    fn error(is_unreadable: bool) -> Error {
        let (table, column) = ("public.outbox".to_owned(), "payload".to_owned());
        let source = match is_unreadable {
            true => RouteError::Column { table: table.clone(), column, source: ColumnError::NotUtf8 },
            false => RouteError::NullRoute { table: table.clone(), column },
        };
        let position = EventPosition::begin(Lsn::ZERO);
        Error::Row { table, name: Default::default(), position, source: Box::new(source) }
    }
}
