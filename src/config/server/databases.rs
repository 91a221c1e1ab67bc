//! Lists of databases. A connection reads one database, so a list can only include or exclude that one.

use crate::config::error::Problem;
use crate::config::read::Reader;

const INCLUDE: &str = "database.include.list";
const EXCLUDE: &str = "database.exclude.list";

/// Refuses lists that exclude `database`, the value of `database.dbname`.
pub(in crate::config) fn check(reader: &mut Reader<'_>, database: &str) {
    let [included, excluded] = [INCLUDE, EXCLUDE].map(|key| reader.patterns(key));
    let is_given = |key| reader.settings.get(key).filter(|setting| !setting.value.trim().is_empty());
    if let (Some(_), Some(setting)) = (is_given(INCLUDE), is_given(EXCLUDE)) {
        reader.invalid(setting, format!("{INCLUDE} is set too, and only one of the two may be"));
        return;
    }
    let lists = [(INCLUDE, included, false), (EXCLUDE, excluded, true)];
    for (key, patterns, leaves_out) in lists {
        let (Some(setting), Some(patterns)) = (reader.settings.get(key), patterns) else { continue };
        if database.is_empty() || patterns.is_empty() || patterns.matches(database) != leaves_out {
            continue;
        }
        let reason = format!(
            "it excludes {database}, which is database.dbname, and one connection sees no other database"
        );
        let fix = format!("remove {}; start an outboxd for each database that is captured", setting.written);
        reader.problems.push(Problem::refused(setting, reason, fix));
    }
}
