//! Resource usage and limits of this process.

/// Ticks per second in `/proc/self/stat`; fixed on Linux.
const TICKS_PER_S: f64 = 100.0;

/// CPU seconds of this process, user and system.
pub(crate) fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is a name in parentheses and may contain blanks.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS_PER_S
}

/// Raises the limit on open files to at least `wanted`; returns the current limit.
pub(crate) fn allow_files(wanted: u64) -> Result<u64, String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match (current, maximum) {
        (Some(current), _) if current >= wanted => return Ok(current),
        (None, _) => return Ok(u64::MAX),
        (Some(_), Some(maximum)) if maximum < wanted => {
            return Err(format!(
                "the benchmark needs {wanted} open files and the limit is {maximum}; raise it with `ulimit -n {wanted}`"
            ));
        }
        (Some(_), _) => {}
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
        .map_err(|error| format!("raise the limit to {wanted} open files: {error}"))?;
    Ok(wanted)
}

/// The peak memory of this process, in MiB.
pub(crate) fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}
