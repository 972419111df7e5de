//! The rules of the workspace. The name of each test is the rule.

// Each module is marked, because the lints allow `unwrap` in a helper only if they see that it is test code.

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
mod licenses;
#[cfg(test)]
mod naming;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod threats;
#[cfg(test)]
mod workspace;
