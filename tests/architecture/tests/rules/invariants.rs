//! Every invariant in `ARCHITECTURE.md` names the test that holds it, as `path/to/file.rs::name_of_test`.

use crate::code::has_word;
use crate::workspace::{file, root};

#[test]
fn every_invariant_names_a_test_that_exists() {
    let invariants = invariants(&file("ARCHITECTURE.md"));
    assert!(!invariants.is_empty(), "ARCHITECTURE.md has no list under `## Invariants`");
    let wrong: Vec<String> = invariants.iter().flat_map(|invariant| faults(invariant)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_invariant_reaches_to_the_next_one() {
    let page = "# A\n- no\n## Invariants\nSome words.\n\n- one\n  goes on (`a/b.rs::c`)\n\n- two\n### More\n- three\n## B\n- no";
    assert_eq!(invariants(page), ["one goes on (`a/b.rs::c`)", "two", "three"]);
    assert_eq!(tests_named(&invariants(page)[0]), [("a/b.rs", "c")]);
}

#[test]
fn an_invariant_without_a_test_is_found_out() {
    assert_eq!(faults("Nothing is lost."), ["no test is named: Nothing is lost."]);
    assert_eq!(
        faults("Nothing (`no/such.rs::test`)."),
        ["there is no file no/such.rs: Nothing (`no/such.rs::test`)."]
    );
}

/// The items of the list in that section, each on one line.
fn invariants(page: &str) -> Vec<String> {
    let section = page.lines().skip_while(|line| *line != "## Invariants").skip(1);
    let mut items: Vec<String> = Vec::new();
    let mut within = false;
    for line in section.take_while(|line| !line.starts_with("## ")) {
        if let Some(item) = line.strip_prefix("- ") {
            items.push(item.to_owned());
            within = true;
        } else if line.starts_with('#') || line.trim().is_empty() {
            within = false;
        } else if let (true, Some(item)) = (within, items.last_mut()) {
            item.push(' ');
            item.push_str(line.trim());
        }
    }
    items
}

/// What is wrong with what an invariant says about its tests.
fn faults(invariant: &str) -> Vec<String> {
    if tests_named(invariant).is_empty() {
        return vec![format!("no test is named: {invariant}")];
    }
    test_faults(invariant, invariant)
}

/// What is wrong with the tests that `text` names; `said` is where they are named.
pub(crate) fn test_faults(text: &str, said: &str) -> Vec<String> {
    let fault = |(path, test): (&str, &str)| match std::fs::read_to_string(root().join(path)) {
        Err(_) => Some(format!("there is no file {path}: {said}")),
        // Some suites make their tests from a table, where a name is a literal: text is all they have in common.
        Ok(text) if !has_word(&text, test) => Some(format!("there is no test {test} in {path}: {said}")),
        Ok(_) => None,
    };
    tests_named(text).into_iter().filter_map(fault).collect()
}

/// The path and the name in each `path/to/file.rs::name_of_test`.
fn tests_named(invariant: &str) -> Vec<(&str, &str)> {
    let quoted = invariant.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|name| {
            name.split_once(".rs::").map(|(path, _)| (&name[..path.len() + 3], &name[path.len() + 5..]))
        })
        .collect()
}
