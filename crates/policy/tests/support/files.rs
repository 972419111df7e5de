//! Bundles from texts.

use std::collections::BTreeMap;

use countersign_policy::Bundle;

/// Files by path.
pub(crate) fn files(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

/// A bundle of one file, `policy.rego`, in the package `countersign`, whose text begins on line 2.
pub(crate) fn bundle(text: &str) -> Bundle {
    let text = format!("package countersign\n{text}");
    Bundle::parse(files(&[("policy.rego", &text)])).unwrap_or_else(|error| panic!("{error}"))
}
