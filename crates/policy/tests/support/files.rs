//! Builds bundles from texts.

use std::collections::BTreeMap;

use countersign_policy::PolicyBundle;

pub(crate) fn files(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

/// A bundle of one file, `policy.rego`. `text` starts on line 2, after the package declaration.
pub(crate) fn bundle(text: &str) -> PolicyBundle {
    let text = format!("package countersign\n{text}");
    PolicyBundle::parse(files(&[("policy.rego", &text)])).unwrap_or_else(|error| panic!("{error}"))
}
