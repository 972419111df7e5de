//! What is fuzzed, and the properties of its results.

mod delivery;
mod proof;
mod text;

/// Executes one input. Returns the kind of its result, or the property that does not hold.
pub(crate) type Execute = Box<dyn FnMut(&[u8]) -> Result<String, String>>;

pub struct FuzzTarget {
    pub name: &'static str,
    /// Inputs in addition to the stored corpus.
    pub(crate) corpus: fn() -> Vec<Vec<u8>>,
    /// Words of the format, for insertions.
    pub(crate) words: &'static [&'static str],
    pub(crate) open: fn() -> Execute,
    /// The inputs of a short run, which takes about ten seconds in a debug build.
    pub executions: u64,
}

/// All targets.
pub const TARGETS: [FuzzTarget; 9] = [
    text::WORKFLOW,
    text::TEMPLATE,
    text::POLICY,
    delivery::WEBHOOK,
    delivery::SLACK,
    proof::BUNDLE,
    proof::ENVELOPE,
    proof::CHECKPOINT,
    delivery::CURSOR,
];

/// `Err` with `property`, unless it holds.
fn ensure(holds: bool, property: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(property.to_owned()) }
}

/// Files of the repository with this extension, below `directory`.
fn files(directory: &str, extension: &str) -> Vec<Vec<u8>> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(directory);
    let mut paths: Vec<std::path::PathBuf> = vec![root];
    let mut found = Vec::new();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            let mut inside: Vec<_> =
                std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
            inside.sort();
            paths.extend(inside);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(std::fs::read(path).unwrap());
        }
    }
    found
}
