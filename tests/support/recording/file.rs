//! Recordings as files: one line for each message, and one file for the long texts that many recordings name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::message::{Message, escape, unescape};
use super::requests::short;
use super::{Backend, Recording, Round};

/// The long texts of all recordings: each with its digest.
static TEXTS: LazyLock<Mutex<BTreeMap<String, String>>> = LazyLock::new(|| Mutex::new(read_texts()));

/// ParameterStatus.
const PARAMETER: u8 = b'S';
/// The mark of several ParameterStatus messages in one line.
const PARAMETERS: char = '*';
/// Descriptions of rows and parameters, which are the same in every run.
const DESCRIPTIONS: [u8; 2] = [b'T', b't'];

impl Recording {
    /// Returns the folder of all recordings.
    pub(crate) fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
    }

    /// Reads the recording of this name; `None` when there is none.
    pub(crate) fn read(name: &str) -> Option<Self> {
        let path = path(name);
        match fs::read_to_string(&path) {
            Ok(text) => Some(Self::parse(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }

    /// Writes the recording under this name.
    pub(crate) fn write(&self, name: &str) {
        let (text, mut texts) = self.text();
        texts.extend(self.texts.clone());
        let path = path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        let mut all = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(texts);
        write_texts(&all);
    }

    /// Drops the long texts that no recording names. Returns their number.
    pub(crate) fn drop_unused_texts() -> usize {
        let mut all = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock: a recording is written before its texts are added.
        let folders = fs::read_dir(Self::folder()).unwrap().map(|entry| entry.unwrap().path());
        let files = folders.filter(|path| path.is_dir()).flat_map(|folder| fs::read_dir(folder).unwrap());
        let mut used = BTreeSet::new();
        for file in files {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            let last_words = text.lines().filter_map(|line| line.rsplit(' ').next());
            used.extend(last_words.filter(|word| word.starts_with('#')).map(str::to_owned));
        }
        let before = all.len();
        all.retain(|digest, _| used.contains(digest));
        let dropped = before - all.len();
        if dropped > 0 {
            write_texts(&all);
        }
        dropped
    }

    /// Returns the file, and the long texts that its answers name.
    fn text(&self) -> (String, BTreeMap<String, String>) {
        let (mut text, mut texts) = (String::new(), BTreeMap::new());
        for (name, value) in &self.facts {
            writeln!(text, "= {name} {value}").unwrap();
        }
        for Round { backend, request, answer } in &self.rounds {
            let mark = if *backend == Backend::Walsender { 'w' } else { 's' };
            for (line, mark) in request.lines().zip([mark].into_iter().chain(std::iter::repeat('+'))) {
                writeln!(text, "{mark}> {line}").unwrap();
            }
            let mut answer = answer.as_slice();
            while let Some(message) = answer.first() {
                let parameters = answer.iter().take_while(|message| message.tag == PARAMETER).count();
                let (head, tail) = answer.split_at(parameters.max(1));
                answer = tail;
                let line = message.line();
                let (mark, whole) = match parameters {
                    0 => (char::from(message.tag), line.get(2..).unwrap_or_default().to_owned()),
                    _ => (PARAMETERS, escape(&shared(head).flat_map(Message::bytes).collect::<Vec<_>>())),
                };
                let name = short(&whole);
                let is_named = name != whole && (parameters > 0 || DESCRIPTIONS.contains(&message.tag));
                if is_named {
                    writeln!(text, "< {mark} {name}").unwrap();
                    texts.insert(name, whole);
                }
                for message in head.iter().filter(|message| !is_named || is_of_the_run(message)) {
                    writeln!(text, "< {}", message.line()).unwrap();
                }
            }
        }
        (text, texts)
    }

    fn parse(text: &str) -> Self {
        let texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut recording = Self::default();
        let rounds = &mut recording.rounds;
        for line in text.lines() {
            let (mark, rest) = line.split_once(' ').unwrap();
            let begin = |backend| Round { backend, request: rest.to_owned(), answer: Vec::new() };
            match mark {
                "=" => {
                    let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
                    recording.facts.insert(name.to_owned(), value.to_owned());
                }
                "w>" => rounds.push(begin(Backend::Walsender)),
                "s>" => rounds.push(begin(Backend::Sql)),
                "+>" => {
                    let request = &mut rounds.last_mut().unwrap().request;
                    request.push('\n');
                    request.push_str(rest);
                }
                "<" => rounds.last_mut().unwrap().answer.extend(messages(rest, &texts)),
                _ => panic!("no line of a recording: {line}"),
            }
        }
        recording
    }
}

/// Returns the parameters that are the same in every run.
fn shared(parameters: &[Message]) -> impl Iterator<Item = &Message> {
    parameters.iter().filter(|message| !is_of_the_run(message))
}

/// Returns whether a message is a parameter with the name of the run's slot.
fn is_of_the_run(message: &Message) -> bool {
    message.tag == PARAMETER && message.body.starts_with(b"application_name\0")
}

/// Parses the messages of a line of an answer.
fn messages(line: &str, texts: &BTreeMap<String, String>) -> Vec<Message> {
    let (tag, rest) = line.split_once(' ').unwrap_or((line, ""));
    let whole = |name: &str| {
        let text = texts.get(name).unwrap_or_else(|| panic!("{name} is not in tests/recordings/texts"));
        text.clone()
    };
    if tag.starts_with(PARAMETERS) {
        let bytes = unescape(&whole(rest));
        let (mut rest, mut messages) = (bytes.as_slice(), Vec::new());
        while !rest.is_empty() {
            let length = u32::from_be_bytes(rest[1..5].try_into().unwrap());
            let length = 1 + usize::try_from(length).unwrap();
            messages.push(Message::parse(&rest[..length]));
            rest = &rest[length..];
        }
        return messages;
    }
    let is_named = rest.starts_with('#') && DESCRIPTIONS.contains(&tag.as_bytes()[0]);
    match is_named {
        true => vec![Message::of_line(&format!("{tag} {}", whole(rest)))],
        false => vec![Message::of_line(line)],
    }
}

fn path(name: &str) -> PathBuf {
    Recording::folder().join(format!("{name}.txt"))
}

fn read_texts() -> BTreeMap<String, String> {
    let text = fs::read_to_string(path("texts")).unwrap_or_default();
    text.lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .collect()
}

fn write_texts(texts: &BTreeMap<String, String>) {
    let lines: Vec<String> = texts.iter().map(|(digest, text)| format!("{digest} {text}\n")).collect();
    fs::write(path("texts"), lines.concat()).unwrap();
}
