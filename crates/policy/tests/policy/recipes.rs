//! The recipes under `examples/policies`: each is a bundle of its own, tested, and told of in the cookbook.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use countersign_policy::Bundle;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every recipe, by its name.
fn recipes() -> BTreeMap<String, Bundle> {
    let entries = fs::read_dir(root().join("examples/policies")).unwrap().map(Result::unwrap);
    let recipe = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), bundle(&entry.path()));
    entries.map(recipe).collect()
}

fn bundle(dir: &Path) -> Bundle {
    let file = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
    };
    let files = fs::read_dir(dir).unwrap().map(Result::unwrap).map(file).collect();
    Bundle::parse(files).unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
}

#[test]
fn the_tests_of_every_recipe_pass() {
    let recipes = recipes();
    assert!(!recipes.is_empty());
    for (name, bundle) in recipes {
        let report = bundle.test();
        assert!(report.is_green(), "{name}: {report}");
    }
}

#[test]
fn the_cookbook_tells_of_every_recipe() {
    let cookbook = fs::read_to_string(root().join("docs/policies.md")).unwrap();
    for name in recipes().keys() {
        assert!(cookbook.contains(&format!("(../examples/policies/{name}/policy.rego)")), "{name}");
    }
}
