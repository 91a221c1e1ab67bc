//! Language of comments: that of a function begins with a verb in the third person, that of anything else with a noun and not
//! with a word of [`QUESTIONS`], and no comment uses a word of [`AVOIDED`].

use super::tidy::{File, repository};

/// Folders of the code: the product, its tests, benchmarks and examples.
const FOLDERS: [&str; 6] = ["benches/", "crates/", "fuzz/", "inbox/", "src/", "tests/"];

/// Ending of the files whose comments are help texts of the command line.
const HELP: &str = "/args.rs";

/// Words that end like a verb in the third person, and are none at the beginning of a comment.
const NO_VERBS: [&str; 34] = [
    "Across",
    "Always",
    "As",
    "Brokers",
    "Bytes",
    "Columns",
    "Digits",
    "Entries",
    "Events",
    "Has",
    "Headers",
    "His",
    "Is",
    "Its",
    "Keys",
    "Lines",
    "Microseconds",
    "Milliseconds",
    "Operations",
    "Options",
    "Partitions",
    "Perhaps",
    "Positions",
    "Rows",
    "Seconds",
    "Settings",
    "Sometimes",
    "Tables",
    "This",
    "Topics",
    "Transactions",
    "Unless",
    "Values",
    "Whose",
];

/// Words that begin a sentence fragment instead of a noun phrase.
const QUESTIONS: [&str; 10] =
    ["What", "Whatever", "Who", "Whom", "Whose", "Where", "When", "Whether", "Why", "How"];

/// Words and phrases for which the field has a plainer one.
const AVOIDED: [&str; 36] = [
    "tell",
    "tells",
    "told",
    "telling",
    "say",
    "says",
    "said",
    "saying",
    "hear",
    "hears",
    "heard",
    "nobody",
    "somebody",
    "whoever",
    "anew",
    "again and again",
    "so many",
    "as many as",
    "goes on",
    "comes on",
    "mend",
    "mends",
    "cure",
    "cures",
    "for certain",
    "in truth",
    "is to be",
    "are to be",
    "has come past",
    "passed over",
    "passes over",
    "left out",
    "leaves out",
    "left alone",
    "held against",
    "letters",
];

/// Phrases of which an avoided word is a part, and may be: names of the field, and of the servers' own texts.
const ALLOWED: [&str; 2] = ["dead letters", "small letters"];

/// A comment of several lines, and the item below it.
struct Comment<'t> {
    line: usize,
    text: String,
    is_doc: bool,
    is_of_test: bool,
    item: &'t str,
}

#[test]
fn comments_are_in_plain_english() {
    let files = repository();
    assert!(files.iter().any(|file| is_checked(&file.path)), "no file is checked");
    let broken: Vec<_> = files.iter().filter(|file| is_checked(&file.path)).flat_map(violations).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_comment_in_other_words_is_found() {
    let cases = [
        (
            "/// What is left.\nfn a() {}",
            "a.rs:1: \"What\" is no verb: the comment of a function begins with one",
        ),
        (
            "/// Topics of it.\n#[must_use]\npub const fn a() {}",
            "a.rs:1: \"Topics\" is no verb: the comment of a function begins with one",
        ),
        (
            "/// That it is so.\n#[expect(\n    clippy::a\n)]\nfn a() {}",
            "a.rs:1: \"That\" is no verb: the comment of a function begins with one",
        ),
        (
            "/// Records of it.\nfn a() {}",
            "a.rs:1: \"Records\" is no verb: the comment of a function begins with one",
        ),
        ("fn a() {}\n// It is\n// told.\n", "a.rs:2: avoid \"told\""),
        ("//! Read anew.\n", "a.rs:1: avoid \"anew\""),
        ("/// Whoever reads.\nstruct A;", "a.rs:1: avoid \"whoever\""),
        ("/// What it is.\nstruct A;", "a.rs:1: \"What\" begins no noun phrase"),
    ];
    for (text, expected) in cases {
        assert_eq!(violations(&file(text)), [expected]);
    }
}

#[test]
fn plain_comments_are_let_through() {
    let cases = [
        "/// Returns it.\nfn a() {}",
        "/// Records that it is read.\npub(crate) async fn a() {}",
        "/// What the test shows.\n#[test]\nfn a() {}",
        "/// A thing.\nstruct A;",
        "/// Returns `told`, which tellers count, and dead letters.\nfn a() {}",
        "let text = \"it is told\";",
        "//// A rule.\nfn a() {}",
    ];
    for text in cases {
        assert_eq!(violations(&file(text)), [""; 0], "{text}");
    }
}

fn file(text: &str) -> File {
    File { path: "a.rs".to_owned(), text: text.to_owned() }
}

fn is_checked(path: &str) -> bool {
    FOLDERS.iter().any(|folder| path.starts_with(folder)) && path.ends_with(".rs")
}

fn violations(file: &File) -> Vec<String> {
    let File { path, text } = file;
    let mut broken = Vec::new();
    for comment in comments(text) {
        let Comment { line, text, is_doc, is_of_test, item } = &comment;
        let first = text.split(' ').next().unwrap_or_default();
        if *is_doc && is_function(item) && !is_of_test && !begins_with_verb(text) {
            let rule = "the comment of a function begins with one";
            broken.push(format!("{path}:{line}: {first:?} is no verb: {rule}"));
        }
        if !path.ends_with(HELP) {
            if *is_doc && !is_function(item) && QUESTIONS.contains(&first) {
                broken.push(format!("{path}:{line}: {first:?} begins no noun phrase"));
            }
            let words = plain_words(text);
            let found = AVOIDED.iter().filter(|avoided| words.contains(&format!(" {avoided} ")));
            broken.extend(found.map(|avoided| format!("{path}:{line}: avoid {avoided:?}")));
        }
    }
    broken
}

/// Returns the comments that have lines of their own, in their order.
fn comments(text: &str) -> Vec<Comment<'_>> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let Some(mark) = mark(line) else {
            at += 1;
            continue;
        };
        let of_it: Vec<_> = lines.iter().skip(at).map_while(|line| line_of(mark, line)).collect();
        let mut attributes = Attributes::default();
        let item = lines.iter().skip(at + of_it.len()).find(|line| !attributes.has(line));
        found.push(Comment {
            line: at + 1,
            is_doc: mark != "//",
            is_of_test: attributes.is_of_test,
            item: item.copied().unwrap_or_default(),
            text: of_it.join(" ").trim().to_owned(),
        });
        at += of_it.len().max(1);
    }
    found
}

/// Attributes between a comment and its item, each on one line or on several.
#[derive(Default)]
struct Attributes {
    opened: usize,
    closed: usize,
    is_of_test: bool,
}

impl Attributes {
    /// Returns whether the next line belongs to them.
    fn has(&mut self, line: &str) -> bool {
        let belongs = line.starts_with("#[") || self.opened > self.closed;
        if belongs {
            self.opened += line.matches('[').count();
            self.closed += line.matches(']').count();
            self.is_of_test |= line.contains("test]") || line.contains("test(");
        }
        belongs
    }
}

/// Returns the mark of a line that is a comment.
fn mark(line: &str) -> Option<&'static str> {
    ["///", "//!", "//"].into_iter().find(|mark| line.starts_with(mark))
}

/// Returns the text of a line that continues a comment with this mark.
fn line_of<'t>(mark: &str, line: &'t str) -> Option<&'t str> {
    let rest = line.strip_prefix(mark)?;
    (!rest.starts_with(['/', '!'])).then(|| rest.trim())
}

fn is_function(item: &str) -> bool {
    let words: Vec<_> = item.split([' ', '(']).collect();
    let is_keyword = |word: &&str| ["const", "async", "unsafe", "extern", "pub"].contains(word);
    let is_scope = |word: &&str| word.ends_with(')') || word.starts_with("in") || word.contains("::");
    words.into_iter().find(|word| !is_keyword(word) && !is_scope(word)) == Some("fn")
}

fn begins_with_verb(text: &str) -> bool {
    let first = text.split(' ').next().unwrap_or_default().trim_end_matches([',', '.', ':']);
    let is_word =
        first.starts_with(|c: char| c.is_ascii_uppercase()) && first.chars().all(|c| c.is_alphabetic());
    // "Records that …" and "Names the …" are what a function does, "Records of …" and
    // "Names of …" what it returns.
    let is_noun = text.starts_with("Records of ") || text.starts_with("Names of ");
    is_word && first.ends_with('s') && !NO_VERBS.contains(&first) && !is_noun
}

/// Returns the words in lower case, without code, with one space before and behind each.
fn plain_words(text: &str) -> String {
    let prose: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
    let prose = ALLOWED.iter().fold(prose, |prose, allowed| prose.replace(allowed, ""));
    let is_word = |c: char| c.is_alphanumeric() || c == '\'' || c == '_';
    let words: Vec<_> = prose.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).collect();
    format!(" {} ", words.join(" "))
}
