//! Compiles policy files to an engine that is ready for evaluation.

use std::collections::BTreeMap;
use std::sync::Arc;

use regorus::Engine;

use crate::bundle::{BUNDLE_BYTES_MAX, FILES_MAX, is_test};
use crate::check::Catalogue;
use crate::error::{PolicyError, PolicyErrorKind};
use crate::evaluate::{ENTRY_PACKAGE, ENTRY_RULE, entry, time_limit};
use crate::evaluation_error::split_location;
use crate::lexical;
use crate::location::PolicyLocation;
use crate::syntax::{self, File};

/// A path is a file name, with few directories.
const PATH_BYTES_MAX: usize = 128;

/// An invalid path is cut to this length in the error.
const PATH_CHARS_SHOWN: usize = 64;

/// Checks the number, size and paths of the files before they are parsed.
pub(crate) fn check_size(files: &BTreeMap<String, String>) -> Result<(), PolicyError> {
    let refused = |kind| Err(PolicyError::of_bundle(kind));
    if files.len() > FILES_MAX {
        return refused(PolicyErrorKind::TooManyFiles { files: files.len() });
    }
    let bytes = files.values().map(String::len).sum();
    if bytes > BUNDLE_BYTES_MAX {
        return refused(PolicyErrorKind::TooLarge { bytes });
    }
    if let Some(path) = files.keys().find(|path| !is_path(path)) {
        return refused(PolicyErrorKind::Path { path: domain::failure::bounded(path, PATH_CHARS_SHOWN) });
    }
    if files.keys().all(|path| is_test(path)) { refused(PolicyErrorKind::Empty) } else { Ok(()) }
}

/// Whether `path` is a relative path of a Rego file that is valid on every system.
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

/// Parses each of `files` into its outline.
pub(crate) fn outline(files: &BTreeMap<String, String>) -> Result<Vec<File>, PolicyError> {
    files.iter().map(|(path, text)| outline_of(path, text)).collect()
}

fn outline_of(path: &str, text: &str) -> Result<File, PolicyError> {
    lexical::check(path, text)?;
    let mut engine = Engine::new();
    add(&mut engine, path, text)?;
    let module = engine.get_modules().first().map(|module| syntax::outline(module, is_test(path)));
    module.ok_or_else(|| PolicyError::of_bundle(PolicyErrorKind::Empty))
}

fn add(engine: &mut Engine, path: &str, text: &str) -> Result<(), PolicyError> {
    engine.add_policy(path.to_owned(), text.to_owned()).map(drop).map_err(|error| {
        let mut error = syntax_error(&error.to_string());
        let start = PolicyLocation { file: path.to_owned(), line: 1, column: 1 };
        error.location = error.location.or(Some(start));
        error
    })
}

fn syntax_error(error: &str) -> PolicyError {
    let (location, message) = split_location(error);
    PolicyError { location, kind: PolicyErrorKind::Syntax(message) }
}

/// An engine with `files` and a time limit. Clone it for each evaluation.
pub(crate) fn prepared<'a>(
    files: impl IntoIterator<Item = (&'a String, &'a String)>,
    catalogue: &Catalogue,
) -> Result<Engine, PolicyError> {
    let mut engine = Engine::new();
    engine.set_execution_timer_config(time_limit());
    for (path, text) in files {
        add(&mut engine, path, text)?;
    }
    add(&mut engine, ENTRY_PACKAGE, &entry(catalogue.sets()))?;
    // Compilation for one rule prepares the engine for all rules.
    let rule: Arc<str> = ENTRY_RULE.into();
    engine.compile_with_entrypoint(&rule).map_err(|error| syntax_error(&error.to_string()))?;
    Ok(engine)
}
