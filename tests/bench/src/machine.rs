//! What the operating system says about this process.

/// Ticks of `/proc/self/stat` in a second; fixed on Linux.
const TICKS_PER_S: f64 = 100.0;

/// CPU seconds this process has used, user and system.
pub(crate) fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is a name in parentheses and may hold blanks.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS_PER_S
}

/// Allows this process so many open files, and says how many it has now.
pub(crate) fn allow_files(wanted: u64) -> Result<u64, String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match (current, maximum) {
        (Some(current), _) if current >= wanted => return Ok(current),
        (None, _) => return Ok(u64::MAX),
        (Some(_), Some(maximum)) if maximum < wanted => {
            return Err(format!(
                "this takes {wanted} open files and {maximum} are allowed; try `ulimit -n {wanted}`"
            ));
        }
        (Some(_), _) => {}
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
        .map_err(|error| format!("allow {wanted} open files: {error}"))?;
    Ok(wanted)
}

/// The most memory this process has held, in MiB.
pub(crate) fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}
