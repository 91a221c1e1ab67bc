//! Check of every configured key against the table: unknown, unused and refused keys.

use super::keys::{self, Row, Status};
use crate::config::brokers::producer;
use crate::config::error::Problem;
use crate::config::features::router;
use crate::config::notice::{Notice, NoticeKind};
use crate::config::read::Reader;
use crate::config::source::settings::{Setting, Settings};

/// Reason why a name of older versions is not used.
const OLD: &str = "a name of older versions, which Debezium 3.7 does not read either";
/// Reason why an option of a transform that `transforms` does not name is not used.
const SWITCHED_OFF: &str = "`transforms` does not name the transform, so Debezium ignores it too";

/// Reports unknown keys, refuses keys that must not be ignored, and adds notices about unused keys.
pub(in crate::config) fn check(reader: &mut Reader<'_>) {
    let aliases = router::aliases(reader);
    let settings = reader.settings;
    for (key, setting) in settings.iter() {
        if !router::is_declared(&aliases, key) {
            check_undeclared(reader, key, setting, &aliases);
            continue;
        }
        let is_elsewhere = router::is_foreign_transform(reader, key);
        if producer::is_client_key(key) || is_elsewhere || is_of_processor(reader, key) {
            continue;
        }
        match keys::lookup(key) {
            Some(row) => check_row(reader, row, key, setting),
            None => reader.problems.push(unknown(key, setting, &aliases)),
        }
    }
}

/// Checks a key of a transform that `transforms` does not name. A transform with a type is switched off; without one,
/// its name may be misspelt. An empty `transforms` may have been forgotten: then the type is refused.
fn check_undeclared(reader: &mut Reader<'_>, key: &str, setting: &Setting, aliases: &[String]) {
    let alias = key.strip_prefix("transforms.").and_then(|rest| rest.split('.').next()).unwrap_or_default();
    let kind = format!("transforms.{alias}.type");
    match (reader.filled(&kind).is_some(), aliases.is_empty()) {
        (true, false) => ignore(&mut reader.notices, SWITCHED_OFF, setting),
        (true, true) if key == kind => {
            let fix =
                format!("set transforms={alias}, or remove transforms.{alias}.*, which Debezium ignores");
            reader.problems.push(Problem::refused(setting, "no transform is named in `transforms`", fix));
        }
        (true, true) => {}
        (false, _) => reader.problems.push(unknown(key, setting, aliases)),
    }
}

/// Returns whether a key is an option of a post processor in the old spelling, without the prefix `post.processors.`.
fn is_of_processor(reader: &Reader<'_>, key: &str) -> bool {
    let Some((alias, _)) = key.split_once('.') else { return false };
    let named = reader.filled("post.processors").unwrap_or_default();
    keys::lookup(key).is_none() && named.split(',').any(|name| name.trim() == alias)
}

fn check_row(reader: &mut Reader<'_>, row: &Row, key: &str, setting: &Setting) {
    let is_ignored = match row.status {
        Status::Ignored => true,
        Status::Changes => router::is_outbox(reader),
        _ => false,
    };
    let is_unsaid = setting.value.trim().is_empty() || row.allows(&setting.value);
    match row.status {
        Status::Ignored | Status::Changes if is_ignored && !is_unsaid => {
            ignore(&mut reader.notices, row.reason, setting);
        }
        Status::Refused if !is_unsaid => {
            reader.problems.push(Problem::refused(setting, row.reason, fix(row, setting)));
        }
        Status::Renamed => match renamed(reader.settings, row, key, setting) {
            Some(problem) => reader.problems.push(problem),
            None if is_unsaid => {}
            None => ignore(&mut reader.notices, OLD, setting),
        },
        Status::Used | Status::Better | Status::Changes | Status::Ignored | Status::Refused => {}
    }
}

/// Returns the mistake of a key with a name of older versions. Debezium ignores it, so the records may differ from what
/// was intended. A value under the current name removes the doubt.
pub(in crate::config) fn renamed(
    settings: &Settings,
    row: &Row,
    key: &str,
    setting: &Setting,
) -> Option<Problem> {
    let today = row.successor(key);
    if setting.value.trim().is_empty() || row.allows(&setting.value) || settings.value(&today).is_some() {
        return None;
    }
    let written = &setting.written;
    let prefix = written.strip_suffix(key).unwrap_or_default();
    let fix = format!("remove {written}, which Debezium ignores, or set {prefix}{today} to what it meant");
    Some(Problem::refused(setting, OLD, fix))
}

/// Adds a notice about a key that is not used; keys with the same reason share one.
pub(in crate::config) fn ignore(notices: &mut Vec<Notice>, reason: &str, setting: &Setting) {
    let same = notices.iter_mut().find(|notice| notice.kind == NoticeKind::Ignored && notice.text == reason);
    match same {
        Some(notice) if notice.keys.contains(&setting.written) => {}
        Some(notice) => notice.keys.push(setting.written.clone()),
        None => {
            let (keys, text) = (vec![setting.written.clone()], reason.to_owned());
            notices.push(Notice { kind: NoticeKind::Ignored, keys, text });
        }
    }
}

fn fix(row: &Row, setting: &Setting) -> String {
    match row.allowed().next() {
        Some(allowed) => format!("set {}={allowed}", setting.written),
        None => format!("remove {}", setting.written),
    }
}

fn unknown(key: &str, setting: &Setting, aliases: &[String]) -> Problem {
    let undeclared = key.strip_prefix("transforms.").and_then(|rest| rest.split_once('.'));
    let nearest = match (undeclared, aliases.first()) {
        (Some((alias, option)), Some(declared)) if !aliases.iter().any(|known| known == alias) => {
            Some(format!("transforms.{declared}.{option}"))
        }
        _ => keys::nearest(key),
    };
    // The suggestion keeps the prefix that the key was written with.
    let prefix = setting.written.strip_suffix(key).unwrap_or_default();
    Problem::unknown(setting, nearest.map(|nearest| format!("{prefix}{nearest}")))
}
