//! Executes a target on its corpus and on mutations of it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Seek as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use testkit::Random;

use crate::mutate::mutated;
use crate::targets::{Execute, FuzzTarget};

/// The seed of the short run.
pub const SEED: u64 = 20_261_118;

/// The stack of a worker thread of the product.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// Every parser has a work limit well below this, in a debug build on a busy machine.
const EXECUTION_MAX: Duration = Duration::from_secs(20);

/// The largest memory of the process. The corpus takes a few megabytes.
const MEMORY_KIB_MAX: u64 = 2 * 1024 * 1024;

/// Inputs with a new result are kept up to this number.
const CORPUS_MAX: usize = 4_096;

/// Longer words in a result are hashes and texts of the input.
const WORD_BYTES_MAX: usize = 20;

/// The first words of a result say what it is.
const WORDS_MAX: usize = 12;

/// When a run ends.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub seed: u64,
    pub executions: u64,
    pub time: Duration,
}

#[derive(Debug, Clone, Copy)]
pub struct FuzzReport {
    pub executions: u64,
    /// The kinds of results.
    pub results: usize,
    pub elapsed: Duration,
}

/// The input that is executed, and since when.
type Current = Arc<Mutex<Option<(Instant, Vec<u8>)>>>;

/// Runs `target`. An input that fails is written to `failures`.
pub fn run(target: &'static FuzzTarget, limits: Limits, failures: &Path) -> Result<FuzzReport, String> {
    let current = Current::default();
    let done = Arc::new(AtomicBool::new(false));
    let watched = (Arc::clone(&current), Arc::clone(&done));
    let directory = failures.to_path_buf();
    let fuzzer = move || {
        let result = fuzz(target, limits, &current, &directory);
        done.store(true, Ordering::Release);
        result
    };
    let fuzzer = thread::Builder::new().stack_size(STACK_BYTES).spawn(fuzzer).unwrap();
    watch(target, &watched.0, &watched.1, failures);
    fuzzer.join().map_err(|_| format!("{}: the fuzzer failed", target.name))?
}

/// Ends the process if an execution takes too long or too much memory: it cannot be stopped from outside.
fn watch(target: &FuzzTarget, current: &Current, done: &AtomicBool, failures: &Path) {
    while !done.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(20));
        let memory = resident_kib();
        let guard = current.lock();
        let Some((since, input)) = guard.as_ref() else { continue };
        let reason = match () {
            () if since.elapsed() > EXECUTION_MAX => "takes too long",
            () if memory > MEMORY_KIB_MAX => "takes too much memory",
            () => continue,
        };
        let path = keep(failures, target.name, input);
        eprintln!("{}: an input {reason}: {}", target.name, path.display());
        std::process::exit(1);
    }
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}

fn fuzz(
    target: &FuzzTarget,
    limits: Limits,
    current: &Current,
    failures: &Path,
) -> Result<FuzzReport, String> {
    let started = Instant::now();
    let mut corpus = (target.corpus)();
    corpus.extend(stored(target.name));
    let mut execution =
        Execution { target, execute: (target.open)(), current, failures, log: log(failures, target.name) };
    let mut results = BTreeSet::new();
    for input in &corpus {
        results.insert(execution.of(input)?);
    }
    let mut random = Random::new(limits.seed);
    let mut executions = corpus.len() as u64;
    while executions < limits.executions && started.elapsed() < limits.time {
        let (input, other) = (random.below(corpus.len()), random.below(corpus.len()));
        let input = mutated(&corpus[input], &corpus[other], target.words, &mut random);
        let is_new = results.insert(execution.of(&input)?);
        if is_new && corpus.len() < CORPUS_MAX {
            corpus.push(input);
        }
        executions += 1;
    }
    Ok(FuzzReport { executions, results: results.len(), elapsed: started.elapsed() })
}

struct Execution<'a> {
    target: &'a FuzzTarget,
    execute: Execute,
    current: &'a Current,
    failures: &'a Path,
    log: fs::File,
}

impl Execution<'_> {
    /// The kind of the result of `input`.
    fn of(&mut self, input: &[u8]) -> Result<String, String> {
        // A stack overflow aborts the process. The parent finds the input in this file.
        self.log
            .rewind()
            .and_then(|()| self.log.set_len(0))
            .and_then(|()| self.log.write_all(input))
            .unwrap();
        *self.current.lock() = Some((Instant::now(), input.to_vec()));
        let result = catch_unwind(AssertUnwindSafe(|| (self.execute)(input)));
        *self.current.lock() = None;
        let failure = match result {
            Ok(Ok(kind)) => return Ok(kind_of(&kind)),
            Ok(Err(failure)) => failure,
            Err(_) => "panicked".to_owned(),
        };
        let path = keep(self.failures, self.target.name, input);
        Err(format!("{}: {failure}: {}", self.target.name, path.display()))
    }
}

/// The result without the parts that come from the input.
fn kind_of(result: &str) -> String {
    let mut quoted = false;
    let keep = |c: &char| {
        quoted ^= *c == '`' || *c == '"';
        !quoted && !c.is_ascii_digit()
    };
    let text: String = result.chars().take(200).filter(keep).collect();
    text.split(' ').filter(|word| word.len() <= WORD_BYTES_MAX).take(WORDS_MAX).collect::<Vec<_>>().join(" ")
}

/// The file with the input that is executed.
fn log_path(directory: &Path, target: &str) -> PathBuf {
    directory.join(format!("{target}.current"))
}

fn log(directory: &Path, target: &str) -> fs::File {
    fs::create_dir_all(directory).unwrap();
    fs::File::create(log_path(directory, target)).unwrap()
}

fn keep(directory: &Path, target: &str, input: &[u8]) -> PathBuf {
    let name = domain::Digest::of_bytes(input).to_string();
    let short: String = name.chars().filter(char::is_ascii_alphanumeric).rev().take(12).collect();
    let path = directory.join(format!("{target}-{short}"));
    fs::write(&path, input).unwrap();
    path
}

/// The inputs in `corpus/TARGET`, by name.
fn stored(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}
