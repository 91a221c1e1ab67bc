//! Other programs that drop the partitions of a captured table.

use postgres_protocol::escape::escape_literal;

use super::codes;
use super::report::Check;
use super::tables;
use crate::cleanup::{Manager, Partman};
use crate::postgres::TableFacts;

/// Makes the check of `pg_partman`, which drops partitions after a time.
pub(super) fn retention(table: &TableFacts, manager: &Manager) -> Option<Check> {
    let shown = tables::name(table);
    match manager {
        Manager::Nobody => None,
        Manager::Unknown { schema } => Some(Check::skipped(
            codes::RETENTION,
            format!(
                "whether pg_partman drops partitions of {shown}: the role may not read {schema}.part_config"
            ),
        )),
        Manager::Partman(Partman { retention: Some(retention), keeps_table: false, config }) => {
            let title = format!(
                "pg_partman drops partitions of {shown} after {retention}, whether their rows are sent or not"
            );
            let statement = format!(
                "UPDATE {config} SET retention_keep_table = true WHERE parent_table = {};",
                escape_literal(&shown)
            );
            Some(
                Check::warning(codes::RETENTION, title)
                    .detail("rows that it drops are sent as long as the slot has them, and cannot be sent again if it is lost")
                    .fix(format!("to have them detached instead: {statement}")),
            )
        }
        Manager::Partman(_) => Some(Check::ok(
            codes::RETENTION,
            format!("pg_partman makes the partitions of {shown}, and drops none"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Outcome;
    use super::super::tables::tests::table;
    use super::*;

    #[test]
    fn only_what_drops_by_the_clock_is_a_warning() {
        let partman = |retention: Option<&str>, keeps_table| {
            Manager::Partman(Partman {
                config: "\"partman\".part_config".to_owned(),
                retention: retention.map(str::to_owned),
                keeps_table,
            })
        };
        for (manager, expected) in [
            (Manager::Nobody, None),
            (Manager::Unknown { schema: "partman".to_owned() }, Some(Outcome::Skipped)),
            (partman(None, false), Some(Outcome::Ok)),
            (partman(Some("7 days"), true), Some(Outcome::Ok)),
            (partman(Some("7 days"), false), Some(Outcome::Warning)),
        ] {
            assert_eq!(retention(&table(1), &manager).map(|check| check.outcome), expected, "{manager:?}");
        }
    }
}
