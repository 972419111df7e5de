//! Compiles policy files to an engine that is ready for evaluation.

use std::collections::BTreeMap;
use std::sync::Arc;

use regorus::Engine;

use crate::builtins;
use crate::bundle::{BUNDLE_BYTES_MAX, FILES_MAX, is_test};
use crate::check::Catalogue;
use crate::error::{PolicyError, PolicyErrorKind};
use crate::evaluate::{ENTRY_PACKAGE, ENTRY_RULE, entry_source, time_limit};
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

/// The parsed files of a bundle. Each file is parsed once.
pub(crate) struct ParsedFiles {
    /// The policy files.
    policy: Engine,
    /// All files, including tests.
    all: Engine,
}

/// Parses `files`, and returns the outline of each in the order of the paths.
pub(crate) fn parse(files: &BTreeMap<String, String>) -> Result<(ParsedFiles, Vec<File>), PolicyError> {
    let mut policy = new_engine()?;
    let mut outlines = BTreeMap::new();
    for (path, text) in files.iter().filter(|(path, _)| !is_test(path)) {
        outlines.insert(path, parse_file(&mut policy, path, text)?);
    }
    let mut all = policy.clone();
    for (path, text) in files.iter().filter(|(path, _)| is_test(path)) {
        outlines.insert(path, parse_file(&mut all, path, text)?);
    }
    Ok((ParsedFiles { policy, all }, outlines.into_values().collect()))
}

fn new_engine() -> Result<Engine, PolicyError> {
    let mut engine = Engine::new();
    engine.set_execution_timer_config(time_limit());
    engine.set_policy_length_config(lexical::length_limits());
    builtins::install(&mut engine).map_err(|why| PolicyError::of_bundle(PolicyErrorKind::Syntax(why)))?;
    Ok(engine)
}

fn parse_file(engine: &mut Engine, path: &str, text: &str) -> Result<File, PolicyError> {
    lexical::check(path, text)?;
    add_policy(engine, path, text)?;
    let module = engine.get_modules().last().map(|module| syntax::outline(module, is_test(path)));
    module.ok_or_else(|| PolicyError::of_bundle(PolicyErrorKind::Empty))
}

fn add_policy(engine: &mut Engine, path: &str, text: &str) -> Result<(), PolicyError> {
    #[cfg(test)]
    PARSED.with_borrow_mut(|parsed| parsed.push(path.to_owned()));
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

impl ParsedFiles {
    /// The engine for evaluations, and the one for tests. Clone it for each evaluation.
    pub(crate) fn compile(self, catalogue: &Catalogue) -> Result<(Engine, Engine), PolicyError> {
        Ok((compile_engine(self.policy, catalogue)?, compile_engine(self.all, catalogue)?))
    }
}

fn compile_engine(mut engine: Engine, catalogue: &Catalogue) -> Result<Engine, PolicyError> {
    add_policy(&mut engine, ENTRY_PACKAGE, &entry_source(catalogue.sets()))?;
    // Compilation for one rule prepares the engine for all rules.
    let rule: Arc<str> = ENTRY_RULE.into();
    engine.compile_with_entrypoint(&rule).map_err(|error| syntax_error(&error.to_string()))?;
    Ok(engine)
}

#[cfg(test)]
thread_local! {
    /// The paths that this thread has parsed.
    pub(crate) static PARSED: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}
