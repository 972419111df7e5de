//! From texts to an engine that is ready to be asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use regorus::Engine;

use crate::bundle::{BUNDLE_BYTES_MAX, FILES_MAX, is_test};
use crate::check::Catalogue;
use crate::error::{BundleError, Problem};
use crate::evaluate::{ENTRY_PACKAGE, ENTRY_RULE, budget, entry};
use crate::fault::placed;
use crate::lexical;
use crate::place::Place;
use crate::syntax::{self, File};

/// A path is a word or three, not a tree.
const PATH_BYTES_MAX: usize = 128;

/// How much of a path that is none is shown.
const PATH_CHARS_SHOWN: usize = 64;

/// Refuses what is too much, or has no proper name, before anybody parses it.
pub(crate) fn check_size(files: &BTreeMap<String, String>) -> Result<(), BundleError> {
    let refused = |problem| Err(BundleError::of_bundle(problem));
    if files.len() > FILES_MAX {
        return refused(Problem::TooManyFiles { files: files.len() });
    }
    let bytes = files.values().map(String::len).sum();
    if bytes > BUNDLE_BYTES_MAX {
        return refused(Problem::TooLarge { bytes });
    }
    if let Some(path) = files.keys().find(|path| !is_path(path)) {
        return refused(Problem::Path { path: domain::failure::bounded(path, PATH_CHARS_SHOWN) });
    }
    if files.keys().all(|path| is_test(path)) { refused(Problem::Empty) } else { Ok(()) }
}

/// Whether `path` is that of a Rego file, in a form that means the same on every system.
fn is_path(path: &str) -> bool {
    let part = |part: &str| {
        !part.starts_with('.')
            && !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    path.len() <= PATH_BYTES_MAX
        && path.split('/').all(part)
        && path
            .rsplit('/')
            .next()
            .and_then(|name| name.strip_suffix(".rego"))
            .is_some_and(|stem| !stem.is_empty())
}

/// What is written in each of `files`.
pub(crate) fn outline(files: &BTreeMap<String, String>) -> Result<Vec<File>, BundleError> {
    files.iter().map(|(path, text)| outline_of(path, text)).collect()
}

fn outline_of(path: &str, text: &str) -> Result<File, BundleError> {
    lexical::check(path, text)?;
    let mut engine = Engine::new();
    add(&mut engine, path, text)?;
    let module = engine.get_modules().first().map(|module| syntax::outline(module, is_test(path)));
    module.ok_or_else(|| BundleError::of_bundle(Problem::Empty))
}

fn add(engine: &mut Engine, path: &str, text: &str) -> Result<(), BundleError> {
    engine.add_policy(path.to_owned(), text.to_owned()).map(drop).map_err(|error| {
        let mut error = syntax_error(&error.to_string());
        error.place = error.place.or_else(|| Some(Place { file: path.to_owned(), line: 1, column: 1 }));
        error
    })
}

fn syntax_error(error: &str) -> BundleError {
    let (place, message) = placed(error);
    BundleError { place, problem: Problem::Syntax(message) }
}

/// An engine with `files` and a time budget, ready to be cloned and asked.
pub(crate) fn prepared<'a>(
    files: impl IntoIterator<Item = (&'a String, &'a String)>,
    catalogue: &Catalogue,
) -> Result<Engine, BundleError> {
    let mut engine = Engine::new();
    engine.set_execution_timer_config(budget());
    for (path, text) in files {
        add(&mut engine, path, text)?;
    }
    add(&mut engine, ENTRY_PACKAGE, &entry(catalogue.sets()))?;
    // Compiling for one rule makes the engine ready for all.
    let rule: Arc<str> = ENTRY_RULE.into();
    engine.compile_with_entrypoint(&rule).map_err(|error| syntax_error(&error.to_string()))?;
    Ok(engine)
}
