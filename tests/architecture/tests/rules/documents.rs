//! What the pages under `docs/` and their neighbours refer to is there: tests by name, files by link.

use std::fs;
use std::path::{Path, PathBuf};

use crate::invariants::test_faults;
use crate::workspace::{file, root};

#[test]
fn every_test_that_a_page_names_exists() {
    let faults = |page: &String| -> Vec<String> {
        prose(&file(page)).iter().flat_map(|text| test_faults(text, page)).collect()
    };
    let wrong: Vec<String> = pages().iter().flat_map(faults).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_promise_of_the_semantics_names_its_test() {
    let page = file("docs/semantics.md");
    let promises: Vec<&str> = page.split("\n## ").skip(1).filter(|part| !is_told_elsewhere(part)).collect();
    assert!(promises.len() > 5, "docs/semantics.md has no sections");
    for promise in promises {
        let name = promise.lines().next().unwrap_or_default();
        assert!(promise.contains(".rs::"), "`{name}` in docs/semantics.md names no test");
    }
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let broken: Vec<String> = pages().iter().flat_map(|page| broken_links(page, &file(page))).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_addresses_in_the_manifest_for_slack_are_routes() {
    let routes = file("infra/modules/api/main.tf");
    let manifest = file("docs/slack.md");
    let addresses: Vec<&str> =
        manifest.split("https://HOST").skip(1).filter_map(|rest| rest.split_whitespace().next()).collect();
    assert_eq!(addresses.len(), 2, "{addresses:?}");
    for address in addresses {
        let route = format!("\"POST {}\"", address.replace("TENANT", "{tenant}"));
        assert!(routes.contains(&route), "there is no route {route}");
    }
}

#[test]
fn a_link_is_seen_and_one_to_nowhere_is_found_out() {
    let text = "[a](README.md) [b](docs/none.md#there) [c](https://example.com) [d](#below)\n## Below\n";
    assert_eq!(broken_links("README.md", text), ["README.md links to docs/none.md, which is not there"]);
    assert_eq!(
        broken_links("README.md", "[d](#none)"),
        ["README.md links to #none, which is no heading of it"]
    );
}

/// A section that only repeats, or says what is not promised.
fn is_told_elsewhere(section: &str) -> bool {
    section.starts_with("What is not promised")
}

/// The README, and every page under `docs/`.
fn pages() -> Vec<String> {
    let mut open = vec![PathBuf::from("docs")];
    let mut pages = vec!["README.md".to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(root().join(&dir)).unwrap().map(Result::unwrap) {
            let path = dir.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    pages.sort();
    pages
}

fn broken_links(page: &str, text: &str) -> Vec<String> {
    let anchors: Vec<String> = text.lines().filter(|line| line.starts_with('#')).map(anchor).collect();
    let folder = Path::new(page).parent().unwrap();
    let broken = |link: &str| match link.split_once('#') {
        _ if link.contains("://") => None,
        Some(("", name)) if anchors.iter().any(|anchor| anchor == name) => None,
        Some(("", name)) => Some(format!("{page} links to #{name}, which is no heading of it")),
        other => {
            let path = other.map_or(link, |(path, _)| path);
            let there = root().join(folder).join(path).exists();
            (!there).then(|| format!("{page} links to {path}, which is not there"))
        }
    };
    links(text).into_iter().filter_map(broken).collect()
}

/// What stands in round brackets after square ones.
fn links(text: &str) -> Vec<&str> {
    let linked = prose(text).into_iter().flat_map(|prose| prose.split("](").skip(1));
    linked.filter_map(|rest| rest.split(')').next()).collect()
}

/// The page without its blocks of code.
fn prose(text: &str) -> Vec<&str> {
    text.split("```").step_by(2).collect()
}

/// How a heading is linked to.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
