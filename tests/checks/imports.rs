//! Imports between modules: the table and the orders of docs/ARCHITECTURE.md, compared with the sources.

use std::collections::{BTreeMap, BTreeSet};

use super::tidy::{File, is_test_module, module, product_lines};

/// The modules inside which an order is declared.
const ORDERED: [&str; 2] = ["relay", "kafka"];

/// Rules of the document.
#[derive(Debug, Default)]
struct Architecture {
    /// For each module, what it may import; `None` is everything.
    imports: BTreeMap<String, Option<BTreeSet<String>>>,
    /// For each module with an order inside, its modules from bottom to top.
    orders: BTreeMap<String, Vec<String>>,
    /// Its rooms: folders that have no other purpose than to hold modules of the order.
    rooms: BTreeMap<String, Vec<String>>,
    /// The modules whose rooms have an order too, which is that of `rooms`.
    ordered_rooms: BTreeSet<String>,
}

pub(super) fn violations(files: &[File]) -> Vec<String> {
    let Some(document) = files.iter().find(|file| file.path == "docs/ARCHITECTURE.md") else {
        return Vec::new();
    };
    let architecture = Architecture::parse(&document.text);
    let sources: Vec<&File> = files
        .iter()
        .filter(|file| file.path.starts_with("src/") && file.path.ends_with(".rs"))
        .filter(|file| !["src/main.rs", "src/lib.rs"].contains(&file.path.as_str()))
        .filter(|file| !is_test_module(&file.path, files) && !file.path.contains("/simulation/"))
        .collect();
    let mut broken = Vec::new();
    for file in &sources {
        broken.extend(architecture.foreign_imports(file));
    }
    for folder in ORDERED {
        broken.extend(architecture.upward_imports(folder, &sources));
    }
    broken
}

impl Architecture {
    fn parse(text: &str) -> Self {
        let mut all = Self::default();
        let table = text.lines().skip_while(|line| *line != "## Who may import whom").skip(1);
        for line in table.take_while(|line| !line.starts_with("## ")) {
            let Some((name, rest)) = line.split_once(": ") else {
                all.take_row(line);
                continue;
            };
            let ordered = name.strip_prefix("rooms in order of ");
            let (orders, folder) = match ordered.or_else(|| name.strip_prefix("rooms of ")) {
                Some(folder) => (&mut all.rooms, folder),
                None => (&mut all.orders, name),
            };
            all.ordered_rooms.extend(ordered.map(str::to_owned));
            if ORDERED.contains(&folder) {
                let order = orders.entry(folder.to_owned()).or_default();
                order.extend(rest.split_whitespace().map(str::to_owned));
            }
        }
        all
    }

    fn take_row(&mut self, line: &str) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, modules, imports, ..] = cells.as_slice() else { return };
        let above = || self.imports.keys().cloned().collect();
        let allowed = match *imports {
            "everything" => None,
            "all above" => Some(above()),
            _ => Some(quoted(imports)),
        };
        for module in quoted(modules) {
            self.imports.insert(module, allowed.clone());
        }
    }

    /// Returns the imports of other modules that the table does not have.
    fn foreign_imports(&self, file: &File) -> Vec<String> {
        let of = module(&file.path);
        let Some(allowed) = self.imports.get(of) else {
            return vec![format!("{}: docs/ARCHITECTURE.md does not say what {of} may import", file.path)];
        };
        let Some(allowed) = allowed else { return Vec::new() };
        let imported = named(&code(file), "crate::");
        let known = imported.into_iter().filter(|name| self.imports.contains_key(name) && name != of);
        known
            .filter(|name| !allowed.contains(name))
            .map(|name| format!("{}: imports {name}, which docs/ARCHITECTURE.md does not let it", file.path))
            .collect()
    }

    /// Returns the imports inside a module that point upwards.
    fn upward_imports(&self, folder: &str, sources: &[&File]) -> Vec<String> {
        let Some(order) = self.orders.get(folder) else { return Vec::new() };
        let rooms = self.rooms.get(folder).map(Vec::as_slice).unwrap_or_default();
        let inside = format!("src/{folder}/");
        let files = sources.iter().filter_map(|file| Some((file, file.path.strip_prefix(&inside)?)));
        let names = reexported(sources, folder, rooms);
        let place = |name: &str| order.iter().position(|other| other == name);
        let mut broken = BTreeSet::new();
        for (file, path) in files {
            let (room, path) = split_room(path, rooms);
            if path == "mod.rs" && (room.is_none() || !order.iter().any(|name| room == Some(name))) {
                continue;
            }
            let of = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
            // A room may be a module of the order itself, with its own parts.
            let of = if place(of).is_none() {
                room.filter(|room| place(room).is_some()).unwrap_or(of)
            } else {
                of
            };
            let Some(at) = place(of) else {
                broken.insert(format!("{}: {of} has no place in the order inside {folder}", file.path));
                continue;
            };
            for (other_room, name) in siblings(file, room, path, folder, rooms) {
                let name = names.get(&name).unwrap_or(&name);
                if place(name).is_some_and(|other| other > at) {
                    broken.insert(format!("{folder}: {of} -> {name} points upwards"));
                }
                let floor = |room: &str| {
                    rooms
                        .iter()
                        .position(|other| other == room)
                        .filter(|_| self.ordered_rooms.contains(folder))
                };
                if let (Some(own), Some(other)) =
                    (room.and_then(floor), other_room.as_deref().and_then(floor))
                    && other > own
                {
                    broken.insert(format!("{folder}: {of} -> {name} points to a room above"));
                }
            }
        }
        broken.into_iter().collect()
    }
}

/// Splits a path inside a folder into its room and the path inside the room.
fn split_room<'p>(path: &'p str, rooms: &[String]) -> (Option<&'p str>, &'p str) {
    match path.split_once('/') {
        Some((first, rest)) if rooms.iter().any(|room| room == first) => (Some(first), rest),
        _ => (None, path),
    }
}

/// Returns the modules of its folder that a file names, each with its room.
fn siblings(
    file: &File,
    room: Option<&str>,
    path: &str,
    folder: &str,
    rooms: &[String],
) -> BTreeSet<(Option<String>, String)> {
    let code = code(file);
    let mut names = of_folder(&code, &format!("crate::{folder}::"), rooms);
    // In `a.rs` and in `a/mod.rs`, `super` is the folder or the room.
    if !path.contains('/') || path.ends_with("/mod.rs") && path.matches('/').count() == 1 {
        match room {
            Some(room) if path != "mod.rs" => {
                names.extend(named(&code, "super::").into_iter().map(|name| (Some(room.to_owned()), name)));
            }
            _ => names.extend(of_folder(&code, "super::", rooms)),
        }
    }
    names
}

/// Returns the modules that follow the path of the folder, which may be in a room.
fn of_folder(code: &str, prefix: &str, rooms: &[String]) -> BTreeSet<(Option<String>, String)> {
    let mut names = BTreeSet::new();
    for name in named(code, prefix) {
        if rooms.contains(&name) {
            let inside = named(code, &format!("{prefix}{name}::"));
            names.extend(inside.into_iter().map(|module| (Some(name.clone()), module)));
        }
        names.insert((None, name));
    }
    names
}

/// Returns the module of each name that the folder's own `mod.rs` exports again.
fn reexported(sources: &[&File], folder: &str, rooms: &[String]) -> BTreeMap<String, String> {
    let path = format!("src/{folder}/mod.rs");
    let Some(file) = sources.iter().find(|file| file.path == path) else { return BTreeMap::new() };
    let code = code(file);
    let uses = code.split("use ").skip(1).filter_map(|rest| rest.split_once(';'));
    let uses = uses.filter_map(|(path, _)| path.split_once("::"));
    let uses = uses.map(|(of, names)| match names.split_once("::") {
        Some((module, names)) if rooms.iter().any(|room| room == of) => (module, names),
        _ => (of, names),
    });
    uses.flat_map(|(of, names)| {
        let names = names.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty());
        names.map(move |name| (name.to_owned(), of.to_owned()))
    })
    .collect()
}

/// Returns the names that follow a prefix in code, also those of a group.
fn named(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let (before, rest) = code.split_at(at);
        if before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = rest.trim_start_matches(prefix);
        match rest.strip_prefix('{') {
            Some(group) => names.extend(first_names(group)),
            None => names.extend(identifier(rest)),
        }
    }
    names
}

/// Returns the first names of a group's members, up to the brace that ends it.
fn first_names(group: &str) -> BTreeSet<String> {
    let (mut depth, mut member, mut names) = (0, String::new(), BTreeSet::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.extend(identifier(&std::mem::take(&mut member))),
            _ if depth == 0 => member.push(c),
            _ => {}
        }
    }
    names.extend(identifier(&member));
    names
}

fn identifier(text: &str) -> Option<String> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, _) = text.split_at(end);
    (!name.is_empty()).then(|| name.to_owned())
}

fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns a file's code without comments and tests.
fn code(file: &File) -> String {
    product_lines(&file.text).into_iter().flat_map(|(_, line)| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "## Who may import whom\n| `wal` | – | no |\n| `wire` | `wal` | no |\n| `kafka` | all above | yes |\n\
                            rooms in order of kafka: consume produce\nkafka: time pace reader producer\n## Next\n";

    #[test]
    fn an_import_that_is_not_in_the_document_is_found() {
        // A file, its text, what is wrong with it.
        let cases: [(&str, &str, &[&str]); 13] = [
            ("src/wire/a.rs", "use crate::wal::Lsn;", &[]),
            (
                "src/wal/a.rs",
                "use crate::wire::A;",
                &["src/wal/a.rs: imports wire, which docs/ARCHITECTURE.md does not let it"],
            ),
            (
                "src/wal/a.rs",
                "use crate::{\n    wal::Lsn,\n    wire,\n};",
                &["src/wal/a.rs: imports wire, which docs/ARCHITECTURE.md does not let it"],
            ),
            ("src/wal/a.rs", "// crate::wire\n#[cfg(test)]\nuse crate::wire::A;", &[]),
            ("src/new/a.rs", "", &["src/new/a.rs: docs/ARCHITECTURE.md does not say what new may import"]),
            ("src/kafka/producer.rs", "use super::pace::Pace;\nuse crate::wire::A;", &[]),
            ("src/kafka/time.rs", "use super::{pace::Pace};", &["kafka: time -> pace points upwards"]),
            (
                "src/kafka/time.rs",
                "use crate::kafka::producer::A;",
                &["kafka: time -> producer points upwards"],
            ),
            (
                "src/kafka/produce/producer.rs",
                "use crate::kafka::consume::reader::R;\nuse super::pace::P;",
                &[],
            ),
            ("src/kafka/consume/reader.rs", "use crate::kafka::{produce::producer::P};", &[""; 0]),
            (
                "src/kafka/consume/reader.rs",
                "use crate::kafka::produce::pace::P;",
                &["kafka: reader -> pace points to a room above"],
            ),
            ("src/kafka/consume/pace.rs", "use super::reader::R;", &["kafka: pace -> reader points upwards"]),
            ("src/kafka/other.rs", "", &["src/kafka/other.rs: other has no place in the order inside kafka"]),
        ];
        for (path, text, expected) in cases {
            let files = [("docs/ARCHITECTURE.md", DOCUMENT), (path, text)];
            let files = files.map(|(path, text)| File { path: path.to_owned(), text: text.to_owned() });
            assert_eq!(violations(&files), expected, "{path}: {text}");
        }
    }
}
