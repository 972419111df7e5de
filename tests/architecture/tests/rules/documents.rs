//! The tests and files that the README and the pages under `docs/` refer to exist.

use std::path::Path;

use crate::invariants::missing_tests;
use crate::workspace::{file, files, root};

/// The section of `docs/semantics.md` that lists what is not guaranteed. It needs no test.
const NOT_GUARANTEED: &str = "Not guaranteed";

#[test]
fn every_test_link_resolves() {
    let missing_in = |page: &String| -> Vec<String> {
        prose(&file(page)).iter().flat_map(|text| missing_tests(text, page)).collect()
    };
    let missing: Vec<String> = pages().iter().flat_map(missing_in).collect();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_section_of_the_semantics_names_a_test() {
    let page = file("docs/semantics.md");
    let sections = page.split("\n## ").skip(1);
    let guarantees: Vec<&str> = sections.filter(|section| !section.starts_with(NOT_GUARANTEED)).collect();
    assert!(guarantees.len() > 5, "docs/semantics.md has no sections");
    for guarantee in guarantees {
        let heading = guarantee.lines().next().unwrap_or_default();
        assert!(guarantee.contains(".rs::"), "`{heading}` in docs/semantics.md names no test");
    }
}

#[test]
fn every_relative_link_resolves() {
    let broken: Vec<String> = pages().iter().flat_map(|page| broken_links(page, &file(page))).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// `` `name` in `path` `` in ARCHITECTURE.md: the file exists and has the name.
#[test]
fn every_name_in_the_map_of_the_code_exists() {
    let text = file("ARCHITECTURE.md");
    let named: Vec<(&str, &str)> = text
        .split("` in `")
        .zip(text.split("` in `").skip(1))
        .filter_map(|(before, after)| {
            let name = before.rsplit('`').next()?.rsplit("::").next()?;
            let is_rust =
                |path: &&str| Path::new(path).extension().is_some_and(|extension| extension == "rs");
            let path = after.split('`').next().filter(is_rust)?;
            Some((name, path))
        })
        .collect();
    assert!(named.len() > 10, "{named:?}");
    let is_missing = |(name, path): &&(&str, &str)| {
        !root().join(path).is_file() || !file(path).contains(name.trim_end_matches("()"))
    };
    let missing: Vec<_> = named.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn slack_manifest_uses_deployed_routes() {
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
fn broken_link_is_reported() {
    let text = "[a](README.md) [b](docs/none.md#there) [c](https://example.com) [d](#below)\n## Below\n";
    assert_eq!(broken_links("README.md", text), ["README.md links to docs/none.md, which does not exist"]);
    assert_eq!(
        broken_links("README.md", "[d](#none)"),
        ["README.md links to #none, but has no such heading"]
    );
}

/// The README, and every page under `docs/`.
fn pages() -> Vec<String> {
    let mut pages = files(&["md"]);
    pages.retain(|path| path == "README.md" || path.starts_with("docs/"));
    pages
}

/// A message for each link of `page` whose file or heading does not exist.
fn broken_links(page: &str, text: &str) -> Vec<String> {
    let anchors: Vec<String> = text.lines().filter(|line| line.starts_with('#')).map(anchor).collect();
    let folder = Path::new(page).parent().unwrap();
    let broken = |link: &str| match link.split_once('#') {
        _ if link.contains("://") => None,
        Some(("", name)) if anchors.iter().any(|anchor| anchor == name) => None,
        Some(("", name)) => Some(format!("{page} links to #{name}, but has no such heading")),
        other => {
            let path = other.map_or(link, |(path, _)| path);
            let exists = root().join(folder).join(path).exists();
            (!exists).then(|| format!("{page} links to {path}, which does not exist"))
        }
    };
    links(text).into_iter().filter_map(broken).collect()
}

/// The targets of the Markdown links in `text`.
fn links(text: &str) -> Vec<&str> {
    let linked = prose(text).into_iter().flat_map(|prose| prose.split("](").skip(1));
    linked.filter_map(|rest| rest.split(')').next()).collect()
}

/// The text outside code blocks.
fn prose(text: &str) -> Vec<&str> {
    text.split("```").step_by(2).collect()
}

/// The anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let allowed = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    allowed.map(|c| if c == ' ' { '-' } else { c }).collect()
}
