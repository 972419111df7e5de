//! Under which terms the crates from outside come. The list is the one in `deny.toml`; reading it here makes it
//! hold without cargo-deny.

use std::collections::BTreeSet;

use crate::workspace::{file, parts};

#[test]
fn every_crate_comes_under_a_licence_that_we_accept() {
    let accepted = accepted();
    for part in parts() {
        let licence = part.licence.as_deref().unwrap_or("");
        let accepts = accepts(licence, &|name| accepted.contains(name));
        assert!(
            accepts,
            "{} {} comes under `{licence}`, which deny.toml does not accept",
            part.name, part.version
        );
    }
}

#[test]
fn an_expression_is_accepted_if_one_way_of_reading_it_is() {
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

/// What stands in `allow = [ … ]` under `[licenses]`.
fn accepted() -> BTreeSet<String> {
    let deny = file("deny.toml");
    let section = deny.split_once("[licenses]").unwrap().1;
    let list = section.split_once("allow = [").unwrap().1.split_once("\n]").unwrap().0;
    let names = list.lines().filter_map(|line| line.trim().strip_prefix('"')?.split('"').next());
    names.map(str::to_owned).collect()
}

/// Whether an SPDX expression can be fulfilled with the licences that `is_accepted` accepts. An exception
/// (`WITH`) makes another licence of it, with a name of its own.
fn accepts(expression: &str, is_accepted: &dyn Fn(&str) -> bool) -> bool {
    let spaced =
        expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ").replace(" WITH ", "+WITH+");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, is_accepted };
    reader.any_of().is_some_and(|fulfilled| fulfilled && reader.words.is_empty())
}

struct Reader<'a> {
    words: &'a [&'a str],
    is_accepted: &'a dyn Fn(&str) -> bool,
}

impl Reader<'_> {
    /// `a OR b`, which binds loosest. Nothing if it is not an expression.
    fn any_of(&mut self) -> Option<bool> {
        let mut fulfilled = self.all_of()?;
        while self.takes("OR") {
            fulfilled |= self.all_of()?;
        }
        Some(fulfilled)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut fulfilled = self.one()?;
        while self.takes("AND") {
            fulfilled &= self.one()?;
        }
        Some(fulfilled)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let fulfilled = self.any_of()?;
            return self.takes(")").then_some(fulfilled);
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
