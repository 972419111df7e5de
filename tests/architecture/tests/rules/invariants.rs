//! Every item of the lists in `ARCHITECTURE.md` and `docs/invariants.md` names a test that exists, as
//! `path/to/file.rs::name_of_test`.

use crate::code::has_word;
use crate::workspace::{file, root};

#[test]
fn every_invariant_names_an_existing_test() {
    let summary = file("ARCHITECTURE.md");
    let lists = [
        ("ARCHITECTURE.md, `## Invariants`", items(section(&summary, "## Invariants"))),
        ("docs/invariants.md", items(file("docs/invariants.md").lines())),
    ];
    for (list, invariants) in lists {
        assert!(!invariants.is_empty(), "{list} has no list");
        let found: Vec<String> = invariants.iter().flat_map(|invariant| faults(invariant)).collect();
        assert!(found.is_empty(), "{list}:\n{}", found.join("\n"));
    }
}

#[test]
fn item_includes_its_continuation_lines() {
    let page = "# A\n- no\n## Invariants\nText.\n\n- one\n  goes on (`a/b.rs::c`)\n\n- two\n### More\n- three\n## B\n- no";
    let invariants = items(section(page, "## Invariants"));
    assert_eq!(invariants, ["one goes on (`a/b.rs::c`)", "two", "three"]);
    assert_eq!(test_links(&invariants[0]), [("a/b.rs", "c")]);
}

#[test]
fn page_without_a_section_is_read_from_the_top() {
    assert_eq!(items("# A\n- one\n## B\nText.\n- two\n".lines()), ["one", "two"]);
}

#[test]
fn invariant_without_a_test_is_reported() {
    assert_eq!(faults("Nothing is lost."), ["no test is named: Nothing is lost."]);
    assert_eq!(
        faults("Nothing (`no/such.rs::test`)."),
        ["there is no file no/such.rs: Nothing (`no/such.rs::test`)."]
    );
}

/// The lines below `heading`, up to the next heading of level 2.
fn section<'p>(page: &'p str, heading: &str) -> impl Iterator<Item = &'p str> {
    let below = page.lines().skip_while(move |line| *line != heading).skip(1);
    below.take_while(|line| !line.starts_with("## "))
}

/// The list items in `lines`, each joined into one line.
fn items<'p>(lines: impl Iterator<Item = &'p str>) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    let mut in_item = false;
    for line in lines {
        if let Some(item) = line.strip_prefix("- ") {
            items.push(item.to_owned());
            in_item = true;
        } else if line.starts_with('#') || line.trim().is_empty() {
            in_item = false;
        } else if let (true, Some(item)) = (in_item, items.last_mut()) {
            item.push(' ');
            item.push_str(line.trim());
        }
    }
    items
}

/// Why the invariant fails the rule: it names no test, or a test that does not exist.
fn faults(invariant: &str) -> Vec<String> {
    if test_links(invariant).is_empty() {
        return vec![format!("no test is named: {invariant}")];
    }
    missing_tests(invariant, invariant)
}

/// A message for each test link in `text` that does not resolve; `context` is appended to each message.
pub(crate) fn missing_tests(text: &str, context: &str) -> Vec<String> {
    let fault = |(path, test): (&str, &str)| match std::fs::read_to_string(root().join(path)) {
        Err(_) => Some(format!("there is no file {path}: {context}")),
        // Some suites build their tests from a table of names, so the whole text of the file is searched.
        Ok(source) if !has_word(&source, test) => {
            Some(format!("there is no test {test} in {path}: {context}"))
        }
        Ok(_) => None,
    };
    test_links(text).into_iter().filter_map(fault).collect()
}

/// The path and the test name of each `path/to/file.rs::name_of_test` in backquotes, and of each terraform test.
fn test_links(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    let named = quoted.filter_map(|name| name.split_once("::"));
    let is_test = |path: &str| path.rsplit('/').next().is_some_and(is_test_file);
    named.filter(|(path, _)| is_test(path)).collect()
}

/// `threats.rs`, `worker.tftest.hcl`.
fn is_test_file(name: &str) -> bool {
    name.split_once('.').is_some_and(|(_, extension)| matches!(extension, "rs" | "tftest.hcl"))
}
