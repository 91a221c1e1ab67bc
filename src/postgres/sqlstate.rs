//! The verdict on each SQLSTATE.

use std::time::Duration;

use super::Error;
use crate::error::{Class, Diagnose as _, chain};

/// The verdict on a refusal by the server.
///
/// *Invariant:* a code is `Lasting` only when the same statement would be refused again after a minute, because its object or its setting
/// must change first. Everything else is retried: a code that is not in the table is `Transient`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Lasting: the same statement is refused again until a name, a right, a value or the statement is
    /// changed.
    Lasting,
    /// Doubtful: the missing object may appear again. It is definite when the same code has recurred for
    /// [`DOUBT_LASTS`], with nothing sent meanwhile.
    Doubtful,
    /// The same statement may succeed later.
    Transient,
}

/// Time for which a doubtful code must recur before it is definite.
pub(crate) const DOUBT_LASTS: Duration = Duration::from_secs(300);

/// The longest prefix decides. In PostgreSQL's order, as in its table of error codes (errcodes.txt).
const VERDICTS: &[(&str, Verdict)] = {
    use Verdict::{Doubtful, Lasting, Transient};
    &[
        // Connection trouble; a pooler in front of the server refuses a startup parameter by 08P01.
        ("08", Transient),
        // The statement of a trigger, or feature_not_supported.
        ("09", Lasting),
        ("0A", Lasting),
        // Grantors, roles, diagnostics, CASE, cardinality.
        ("0L", Lasting),
        ("0P", Lasting),
        ("0Z", Lasting),
        ("10", Lasting),
        ("20", Lasting),
        ("21", Lasting),
        // A value of a row or of a statement. But 22023, invalid_parameter_value, also means that a slot which
        // synchronized_standby_slots names is away.
        ("22", Lasting),
        ("22023", Doubtful),
        ("23", Lasting),
        // Transaction states. A standby, or a session that may only read, refuses to write by 25006.
        ("25", Transient),
        ("25006", Lasting),
        // Logins.
        ("28", Lasting),
        ("2B", Lasting),
        ("2F", Lasting),
        ("38", Lasting),
        ("39", Lasting),
        // A database or a schema that does not exist.
        ("3D", Lasting),
        ("3F", Lasting),
        // Conflicts between transactions.
        ("40", Transient),
        // Rights, names and syntax.
        ("42", Lasting),
        ("44", Lasting),
        // Too little memory or room, too many connections or slots.
        ("53", Transient),
        // Limits of the program, such as the size of a row.
        ("54", Lasting),
        // 55000, object_not_in_prerequisite_state: a standby of synchronized_standby_slots is away while the server stops. A slot that
        // is invalid and a wal_level that is too low have this code too; the next start queries the catalog for both.
        ("55", Transient),
        ("55000", Doubtful),
        ("55006", Transient),
        ("55P02", Lasting),
        ("55P03", Transient),
        ("55P04", Lasting),
        // 57014, query_canceled, and the stops of the server or of a session.
        ("57", Transient),
        ("57014", Transient),
        ("57P", Transient),
        // Problems of the system. A missing file, 58P01, may be on a disk that is mounted again, or be WAL that was removed.
        ("58", Transient),
        ("58P01", Doubtful),
        ("F0", Lasting),
        // An error that a trigger or a function of the user raises.
        ("P0", Lasting),
        // Internal errors, and files that are damaged.
        ("XX", Transient),
        ("XX001", Doubtful),
    ]
};

/// Returns the verdict on a SQLSTATE.
pub(crate) fn verdict(code: &str) -> Verdict {
    let fitting = VERDICTS.iter().filter(|(prefix, _)| code.starts_with(prefix));
    fitting.max_by_key(|(prefix, _)| prefix.len()).map_or(Verdict::Transient, |(_, verdict)| *verdict)
}

impl Verdict {
    /// Returns the class of an error that has occurred once.
    pub(crate) const fn class(self) -> Class {
        match self {
            Self::Lasting => Class::Definite,
            Self::Doubtful | Self::Transient => Class::Transient,
        }
    }
}

impl Error {
    /// Returns whether another session has cancelled the statement, or `statement_timeout` has.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.sqlstate() == Some("57014")
    }

    /// Returns whether only another attempt determines if the server's refusal is definite.
    pub(crate) fn is_doubtful(&self) -> bool {
        let is_renewable = matches!(self, Self::Login { renewable: Some(_), .. });
        is_renewable || self.sqlstate().is_some_and(|code| verdict(code) == Verdict::Doubtful)
    }

    /// Returns the definite error for a doubtful one that has lasted.
    pub(crate) fn that_lasts(&self) -> Self {
        if let Self::Login { address, user, database, renewable: Some(_), source } = self {
            let (address, user, database) = (address.clone(), user.clone(), database.clone());
            return Self::Login { address, user, database, renewable: None, source: source.clone() };
        }
        let seconds = DOUBT_LASTS.as_secs();
        Self::Precondition {
            problem: format!("{}: for {seconds} s each attempt has failed like this", chain(self)),
            fix: self
                .fix()
                .unwrap_or_else(|| "see the log of PostgreSQL for the reason, then start again".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_prefix_is_in_the_table_once() {
        for (at, (prefix, _)) in VERDICTS.iter().enumerate() {
            let others = VERDICTS.iter().skip(at + 1);
            assert!(others.clone().all(|(other, _)| other != prefix), "{prefix}");
        }
    }

    #[test]
    fn a_code_that_is_not_in_the_table_is_asked_for_again() {
        let cases = [
            ("57014", Verdict::Transient),
            ("57P01", Verdict::Transient),
            ("58P01", Verdict::Doubtful),
            ("58030", Verdict::Transient),
            ("55000", Verdict::Doubtful),
            ("22023", Verdict::Doubtful),
            ("22P05", Verdict::Lasting),
            ("42704", Verdict::Lasting),
            ("25P03", Verdict::Transient),
            ("XX000", Verdict::Transient),
            ("ZZ123", Verdict::Transient),
            ("", Verdict::Transient),
        ];
        for (code, expected) in cases {
            assert_eq!(verdict(code), expected, "{code}");
        }
    }
}
