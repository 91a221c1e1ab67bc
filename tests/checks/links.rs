//! Links between pages lead to files and headings that exist, so do the pages that messages of the product name, and the index
//! of the documentation has every page.

use std::collections::{BTreeMap, BTreeSet};

use super::tidy::{File, product_lines, repository};

/// Folders of the product's sources.
const PRODUCT: [&str; 3] = ["src/", "crates/", "inbox/src/"];

#[test]
fn each_link_leads_to_a_file_and_a_heading() {
    let broken = broken_links(&repository());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn each_page_that_a_message_names_exists() {
    let files = repository();
    let is_product = |file: &&File| PRODUCT.iter().any(|folder| file.path.starts_with(folder));
    let named: usize = files.iter().filter(is_product).map(|file| pages(file).len()).sum();
    assert!(named >= 5, "only {named} pages were found");
    let broken = broken_pages(&files);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_page_that_a_message_names_and_that_does_not_exist_is_found() {
    let page = File { path: "docs/a.md".to_owned(), text: "# Title\n## Run, and stop\n".to_owned() };
    let cases: [(&str, &[&str]); 6] = [
        ("\"see docs/a.md, or docs/a.md#run-and-stop\"", &[]),
        ("// docs/gone.md\ninclude_str!(\"../../docs/gone.md\")", &[]),
        ("\"see docs/gone.md.\"", &["src/a.rs: docs/gone.md does not exist"]),
        ("\"see docs/a.md#gone\"", &["src/a.rs: docs/a.md#gone has no heading"]),
        ("\"see docs/a.md#run-\\\n     and-stop\"", &[]),
        ("\"docs/a.md, Run, and stop\"", &[]),
    ];
    for (text, expected) in cases {
        let source = File { path: "src/a.rs".to_owned(), text: text.to_owned() };
        assert_eq!(broken_pages(&[page.clone(), source]), expected, "{text}");
    }
}

#[test]
fn the_index_has_every_page() {
    let files = repository();
    let index = files.iter().find(|file| file.path == "docs/README.md").unwrap();
    let linked: BTreeSet<_> = links(&index.text).iter().map(|link| target(&index.path, link).0).collect();
    let pages = files.iter().map(|file| &file.path).filter(|path| {
        path.starts_with("docs/")
            && path.ends_with(".md")
            && !path.starts_with("docs/adr/")
            && **path != index.path
    });
    let missing: Vec<_> = pages.filter(|path| !linked.contains(*path)).collect();
    assert!(missing.is_empty(), "docs/README.md does not have {missing:?}");
}

/// Decisions are numbered, and two branches that add one each must not leave both lists in the index.
#[test]
fn the_index_of_decisions_has_each_of_them_once() {
    let files = repository();
    let index = files.iter().find(|file| file.path == "docs/adr/README.md").unwrap();
    let listed: Vec<&str> =
        index.text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect();
    let expected: Vec<String> = files
        .iter()
        .filter_map(|file| {
            let name = file.path.strip_prefix("docs/adr/").filter(|name| name.starts_with('0'))?;
            let (number, title) = file.text.lines().next()?.strip_prefix("# ")?.split_once(". ")?;
            Some((name.to_owned(), format!("{number}. [{title}]({name})")))
        })
        .collect::<BTreeMap<_, _>>()
        .into_values()
        .collect();
    assert_eq!(listed, expected);
}

#[test]
fn a_broken_link_is_found() {
    let page = |text: &str| File { path: "docs/a.md".to_owned(), text: text.to_owned() };
    let other =
        File { path: "README.md".to_owned(), text: "# Try it\n## `run`, and stop\n## Try it\n".to_owned() };
    let cases: [(&str, &[&str]); 6] = [
        ("[a](../README.md#run-and-stop) [b](../README.md#try-it-1) [c](https://example.org/x#y)", &[]),
        ("# Own\n[a](#own)", &[]),
        ("```\n[a](gone.md)\n```\n", &[]),
        ("[a](gone.md)", &["docs/a.md: gone.md does not exist"]),
        ("[a](../README.md#gone)", &["docs/a.md: ../README.md#gone has no heading"]),
        ("```\n# Own\n```\n[a](#own)", &["docs/a.md: #own has no heading"]),
    ];
    for (text, expected) in cases {
        assert_eq!(broken_links(&[page(text), other.clone()]), expected, "{text}");
    }
}

fn broken_links(files: &[File]) -> Vec<String> {
    let pages = || files.iter().filter(|file| file.path.ends_with(".md"));
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        pages().map(|file| (file.path.as_str(), anchors(&file.text))).collect();
    let exists = |path: &str| {
        files.iter().any(|file| file.path == path || file.path.starts_with(&format!("{path}/")))
            || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path).exists()
    };
    let mut broken = Vec::new();
    for file in pages() {
        for link in links(&file.text).into_iter().filter(|link| !link.contains(':')) {
            let (path, heading) = target(&file.path, &link);
            let anchors = anchors.get(path.as_str());
            if !exists(&path) {
                broken.push(format!("{}: {link} does not exist", file.path));
            } else if heading.is_some_and(|name| anchors.is_some_and(|anchors| !anchors.contains(&name))) {
                broken.push(format!("{}: {link} has no heading", file.path));
            }
        }
    }
    broken
}

/// Returns the pages and headings that the product's sources name and that do not exist.
fn broken_pages(files: &[File]) -> Vec<String> {
    let product = files.iter().filter(|file| PRODUCT.iter().any(|folder| file.path.starts_with(folder)));
    let mut broken = Vec::new();
    for file in product {
        for page in pages(file) {
            let (path, heading) = target("README.md", &page);
            let Some(found) = files.iter().find(|file| file.path == path) else {
                broken.push(format!("{}: {page} does not exist", file.path));
                continue;
            };
            if heading.is_some_and(|heading| !anchors(&found.text).contains(&heading)) {
                broken.push(format!("{}: {page} has no heading", file.path));
            }
        }
    }
    broken
}

/// Returns the pages that a source file names outside its comments, as paths from the top of the repository.
fn pages(file: &File) -> Vec<String> {
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    let mut text = String::new();
    for (_, line) in product_lines(&file.text) {
        // A string may continue on the next line, also within a path.
        text.push_str(line.trim_start());
        if text.ends_with('\\') {
            text.pop();
        } else {
            text.push('\n');
        }
    }
    let begins = text.match_indices("docs/").filter(|(at, _)| {
        let (before, _) = text.split_at(*at);
        !before.ends_with(|char: char| char.is_alphanumeric() || matches!(char, '/' | '.'))
    });
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '-' | '_' | '.' | '/' | '#');
    let paths = begins.map(|(at, _)| {
        let (_, rest) = text.split_at(at);
        rest.split(|char: char| !is_part(char)).next().unwrap_or(rest).trim_end_matches('.').to_owned()
    });
    paths.filter(|path| path.contains(".md")).collect()
}

/// Returns the path of a link from the top of the repository, and its heading.
fn target(from: &str, link: &str) -> (String, Option<String>) {
    let (path, heading) = match link.split_once('#') {
        Some((path, heading)) => (path, Some(heading.to_owned())),
        None => (link, None),
    };
    if path.is_empty() {
        return (from.to_owned(), heading);
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    (parts.join("/"), heading)
}

fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let rests = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    rests.map(|(link, _)| link.to_owned()).filter(|link| !link.contains(char::is_whitespace)).collect()
}

/// Returns the anchors of a page's headings, as GitHub makes them: a heading that is repeated gets a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut seen, mut anchors) = (BTreeMap::<String, usize>::new(), BTreeSet::new());
    for line in prose(text).lines() {
        let Some((_, heading)) = line.split_once("# ").filter(|(marks, _)| marks.chars().all(|c| c == '#'))
        else {
            continue;
        };
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || "_- ".contains(*c));
        let anchor: String = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let before = seen.entry(anchor.clone()).or_default();
        anchors.insert(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
        *before += 1;
    }
    anchors
}

/// Returns a page without its blocks of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}
