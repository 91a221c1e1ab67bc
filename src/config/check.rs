//! Every key that was given is looked up: is it known, is it used, must it be refused.

use super::error::Problem;
use super::keys::{self, Row, Status};
use super::notice::{Notice, NoticeKind};
use super::producer;
use super::read::Reader;
use super::router;
use super::settings::{Setting, Settings};

/// Why a name of older versions is not acted upon.
const OLD: &str = "a name of older versions, which Debezium 3.7 does not read either";
/// Why an option of a transform is not acted upon that is not named.
const SWITCHED_OFF: &str = "`transforms` does not name the transform, so Debezium passes over it too";

/// Reports unknown keys, refuses what must not be ignored, and names once what is not acted upon.
pub(super) fn check(reader: &mut Reader<'_>) {
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

/// A key of a transform that `transforms` does not name. With a type it is one that is switched off, without one its name is
/// misspelt, perhaps. When no transform is named at all, all of them may have been forgotten.
fn check_undeclared(reader: &mut Reader<'_>, key: &str, setting: &Setting, aliases: &[String]) {
    let alias = key.strip_prefix("transforms.").and_then(|rest| rest.split('.').next()).unwrap_or_default();
    let kind = format!("transforms.{alias}.type");
    match (reader.filled(&kind).is_some(), aliases.is_empty()) {
        (true, false) => ignore(&mut reader.notices, SWITCHED_OFF, setting),
        (true, true) if key == kind => {
            let cure =
                format!("set transforms={alias}, or remove transforms.{alias}.*, as Debezium passes over it");
            reader.problems.push(Problem::refused(setting, "no transform is named in `transforms`", cure));
        }
        (true, true) => {}
        (false, _) => reader.problems.push(unknown(key, setting, aliases)),
    }
}

/// Whether a key is an option of a post processor in the old spelling, without `post.processors.` before it.
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
            reader.problems.push(Problem::refused(setting, row.reason, cure(row, setting)));
        }
        Status::Renamed => match renamed(reader.settings, row, key, setting) {
            Some(problem) => reader.problems.push(problem),
            None if is_unsaid => {}
            None => ignore(&mut reader.notices, OLD, setting),
        },
        Status::Used | Status::Better | Status::Changes | Status::Ignored | Status::Refused => {}
    }
}

/// The mistake of saying something by a name of older versions: Debezium passes over it, so that its records may be others than
/// were meant. When it is said by today's name too, nothing is in doubt.
pub(super) fn renamed(settings: &Settings, row: &Row, key: &str, setting: &Setting) -> Option<Problem> {
    let today = row.successor(key);
    if setting.value.trim().is_empty() || row.allows(&setting.value) || settings.value(&today).is_some() {
        return None;
    }
    let written = &setting.written;
    let prefix = written.strip_suffix(key).unwrap_or_default();
    let cure =
        format!("remove {written}, as Debezium passes over it, or say with {prefix}{today} what it meant");
    Some(Problem::refused(setting, OLD, cure))
}

/// Names a key that is not acted upon; keys with one reason share a notice.
pub(super) fn ignore(notices: &mut Vec<Notice>, reason: &str, setting: &Setting) {
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

fn cure(row: &Row, setting: &Setting) -> String {
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
