//! Every key that was given is looked up: is it known, is it used, must it be refused.

use super::error::Problem;
use super::keys::{self, Row, Status};
use super::notice::{Notice, NoticeKind};
use super::producer;
use super::read::Reader;
use super::router;
use super::settings::Setting;

/// Reports unknown keys, refuses what must not be ignored, and names once what is not acted upon.
pub(super) fn check(reader: &mut Reader<'_>) {
    let aliases = router::aliases(reader);
    let settings = reader.settings;
    for (key, setting) in settings.iter() {
        let is_declared = router::is_declared(&aliases, key);
        let is_elsewhere = is_declared && router::is_foreign_transform(reader, key);
        if producer::is_client_key(key) || is_elsewhere || is_of_processor(reader, key) {
            continue;
        }
        let known = keys::lookup(key).filter(|_| is_declared);
        match known {
            Some(row) => check_row(reader, row, setting),
            None => reader.problems.push(unknown(key, setting, &aliases)),
        }
    }
}

/// Whether a key is an option of a post processor in the old spelling, without `post.processors.` before it.
fn is_of_processor(reader: &Reader<'_>, key: &str) -> bool {
    let Some((alias, _)) = key.split_once('.') else { return false };
    let named = reader.filled("post.processors").unwrap_or_default();
    keys::lookup(key).is_none() && named.split(',').any(|name| name.trim() == alias)
}

fn check_row(reader: &mut Reader<'_>, row: &Row, setting: &Setting) {
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
        Status::Used | Status::Better | Status::Changes | Status::Ignored | Status::Refused => {}
    }
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
