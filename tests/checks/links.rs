//! Links between pages lead to files and headings that exist, and the index of the documentation has every page.

use std::collections::{BTreeMap, BTreeSet};

use super::tidy::{File, repository};

#[test]
fn each_link_leads_to_a_file_and_a_heading() {
    let broken = broken_links(&repository());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
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
