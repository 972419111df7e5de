//! The recipes under `examples/policies`: each is a complete bundle with tests, listed in `docs/policies.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use countersign_policy::PolicyBundle;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn recipes() -> BTreeMap<String, PolicyBundle> {
    let entries = fs::read_dir(root().join("examples/policies")).unwrap().map(Result::unwrap);
    let recipe = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), bundle(&entry.path()));
    entries.map(recipe).collect()
}

fn bundle(dir: &Path) -> PolicyBundle {
    let file = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
    };
    let files = fs::read_dir(dir).unwrap().map(Result::unwrap).map(file).collect();
    PolicyBundle::parse(files).unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
}

#[test]
fn recipe_tests_pass() {
    let recipes = recipes();
    assert!(!recipes.is_empty());
    for (name, bundle) in recipes {
        let report = bundle.test();
        assert!(report.is_green(), "{name}: {report}");
    }
}

#[test]
fn docs_list_every_recipe() {
    let docs = fs::read_to_string(root().join("docs/policies.md")).unwrap();
    for name in recipes().keys() {
        assert!(docs.contains(&format!("(../examples/policies/{name}/policy.rego)")), "{name}");
    }
}
