//! The licenses of external crates. The list of accepted licenses is in `deny.toml`; this test enforces it without
//! cargo-deny.

use std::collections::BTreeSet;

use crate::workspace::{dependencies, file};

#[test]
fn every_crate_has_an_accepted_licence() {
    let accepted = accepted();
    for dependency in dependencies() {
        let license = dependency.license.as_deref().unwrap_or("");
        let accepts = accepts(license, &|name| accepted.contains(name));
        assert!(
            accepts,
            "{} {} has the license `{license}`, which deny.toml does not accept",
            dependency.name, dependency.version
        );
    }
}

#[test]
fn licence_expression_needs_one_accepted_choice() {
    let accepts = |expression| accepts(expression, &|name| ["MIT", "ISC"].contains(&name));
    for good in
        ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-3.0", "(MIT OR GPL-3.0) AND ISC", "GPL-3.0 AND Zlib OR ISC"]
    {
        assert!(accepts(good), "{good}");
    }
    for bad in [
        "",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "(MIT OR ISC) AND GPL-3.0",
        "MIT WITH an-exception",
        "MIT OR (",
        "MIT ISC",
    ] {
        assert!(!accepts(bad), "{bad}");
    }
}

/// The entries of `allow = [ … ]` under `[licenses]`.
fn accepted() -> BTreeSet<String> {
    let deny = file("deny.toml");
    let section = deny.split_once("[licenses]").unwrap().1;
    let list = section.split_once("allow = [").unwrap().1.split_once("\n]").unwrap().0;
    let names = list.lines().filter_map(|line| line.trim().strip_prefix('"')?.split('"').next());
    names.map(str::to_owned).collect()
}

/// Whether an SPDX expression can be satisfied with accepted licenses. A license with an exception (`WITH`) counts as a
/// license of its own.
fn accepts(expression: &str, is_accepted: &dyn Fn(&str) -> bool) -> bool {
    let spaced =
        expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ").replace(" WITH ", "+WITH+");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, is_accepted };
    parser.any_of().is_some_and(|satisfied| satisfied && parser.words.is_empty())
}

struct Parser<'a> {
    words: &'a [&'a str],
    is_accepted: &'a dyn Fn(&str) -> bool,
}

impl Parser<'_> {
    /// `a OR b`, which has the lowest precedence. `None` if the input is not an expression.
    fn any_of(&mut self) -> Option<bool> {
        let mut satisfied = self.all_of()?;
        while self.takes("OR") {
            satisfied |= self.all_of()?;
        }
        Some(satisfied)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut satisfied = self.one()?;
        while self.takes("AND") {
            satisfied &= self.one()?;
        }
        Some(satisfied)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let satisfied = self.any_of()?;
            return self.takes(")").then_some(satisfied);
        }
        let (name, rest) = self.words.split_first()?;
        self.words = rest;
        Some((self.is_accepted)(name))
    }

    fn takes(&mut self, word: &str) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if *first == word => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}
