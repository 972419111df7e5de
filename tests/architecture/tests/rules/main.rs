//! The rules of the workspace, each a test whose name is the rule.

// Marked one by one, because the lints let helpers unwrap only where they can see that it is a test.

#[cfg(test)]
mod code;
#[cfg(test)]
mod dependencies;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod invariants;
#[cfg(test)]
mod libraries;
#[cfg(test)]
mod licences;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod threats;
#[cfg(test)]
mod workspace;
