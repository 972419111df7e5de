//! Names and words: public type names are unique, and text names its actors.

use std::collections::{BTreeMap, BTreeSet};

use crate::code::has_word;
use crate::workspace::{file, files, sources};

/// The crate whose types may have the names of the types that they mirror.
const MIRROR: &str = "crates/api-types";

/// Indefinite pronouns and verbs of speech, which hide the actor or what happened, in two halves so that this file passes
/// its own rule.
const FORBIDDEN_WORDS: [(&str, &str); 10] = [
    ("who", "ever"),
    ("no", "body"),
    ("some", "body"),
    ("any", "body"),
    ("which", "ever"),
    ("where", "ever"),
    ("what", "ever"),
    ("some", "one"),
    ("to", "ld"),
    ("sa", "id"),
];

/// Files that may contain such a word, with the reason.
const ALLOWED: [(&str, &str); 0] = [];

#[test]
fn public_type_names_are_unique() {
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources() {
        let Some(owner) = product_crate(&source.path).filter(|owner| *owner != MIRROR) else { continue };
        for name in public_types(&source.code) {
            owners.entry(name.to_owned()).or_default().insert(owner.to_owned());
        }
    }
    let shared = owners.iter().filter(|(_, crates)| crates.len() > 1);
    let duplicates: Vec<String> = shared.map(|(name, crates)| format!("{name}: {crates:?}")).collect();
    assert!(
        duplicates.is_empty(),
        "public types with one name in several crates; rename all but one:\n{}",
        duplicates.join("\n")
    );
}

#[test]
fn text_names_the_actor() {
    let words = FORBIDDEN_WORDS.map(|(start, end)| format!("{start}{end}"));
    let allowed = |path: &String| ALLOWED.iter().any(|(allowed, _)| allowed == path);
    let checked = files(&["rs", "md", "tf", "rego"]).into_iter().filter(|path| !allowed(path));
    let found: Vec<String> = checked.flat_map(|path| lines_with_word(&path, &file(&path), &words)).collect();
    assert!(
        found.is_empty(),
        "{} lines hide their actor; name the actor, or list the file in ALLOWED:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn allowed_file_exists_and_has_a_reason() {
    for (path, reason) in ALLOWED {
        assert!(!file(path).is_empty() && !reason.is_empty(), "{path}");
    }
}

#[test]
fn public_type_is_found_by_its_definition() {
    let code = "pub struct A<T>(T);\npub enum B {}\n    pub struct C;\npub(crate) struct D;\npub trait E: F {}\nstruct G;";
    assert_eq!(public_types(code).collect::<Vec<_>>(), ["A", "B", "E"]);
    assert_eq!(product_crate("crates/domain/src/run/mod.rs"), Some("crates/domain"));
    assert_eq!(product_crate("worker/src/lib.rs"), Some("worker"));
    assert_eq!(product_crate("crates/domain/tests/run.rs"), None);
    assert_eq!(product_crate("tests/model/src/lib.rs"), None);
}

#[test]
fn forbidden_word_is_found_in_any_case_as_a_whole_word() {
    let words = ["word".to_owned()];
    let found = lines_with_word("a.md", "none\nA Word.\nkeyword words\n", &words);
    assert_eq!(found, ["a.md:2: A Word."]);
}

/// The directory of the product crate to which a source file belongs.
fn product_crate(path: &str) -> Option<&str> {
    let (owner, _) = path.split_once("/src/")?;
    let in_crates = owner.strip_prefix("crates/").is_some_and(|name| !name.contains('/'));
    (in_crates || owner == "worker" || owner == "functions").then_some(owner)
}

/// The names of the public structs, enums and traits that are defined at the top level of a file.
fn public_types(code: &str) -> impl Iterator<Item = &str> {
    let definitions = code.lines().filter_map(|line| {
        ["pub struct ", "pub enum ", "pub trait "].iter().find_map(|keyword| line.strip_prefix(keyword))
    });
    definitions.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
}

/// Every line that contains one of the lower-case words, as `path:line: text`.
fn lines_with_word(path: &str, text: &str, words: &[String]) -> Vec<String> {
    let hides = |line: &str| words.iter().any(|word| has_word(&line.to_lowercase(), word));
    let lines = text.lines().enumerate().filter(|(_, line)| hides(line));
    lines.map(|(at, line)| format!("{path}:{}: {}", at + 1, line.trim())).collect()
}
