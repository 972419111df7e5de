//! The reports, as text or JSON.

use std::time::Duration;

use serde::Serialize;

use crate::bench::Measured;

/// Runs of five steps that do nothing.
#[derive(Debug, Serialize)]
pub(crate) struct Linear5 {
    steps_per_s: f64,
    run_ms_p50: f64,
    run_ms_p95: f64,
    run_ms_p99: f64,
    cpu_s_per_1000_steps: f64,
    bytes_per_1000_steps: f64,
    fsyncs_per_step: f64,
    rows_per_step: f64,
    alone_step_ms_p50: f64,
    /// The same load, with the evidence of every run built, signed and stored during the measurement.
    steps_per_s_with_evidence: f64,
    cpu_s_per_1000_steps_with_evidence: f64,
    peak_mib: f64,
    runs: u32,
    in_flight: u32,
    steps_expected: f64,
    steps_recorded: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    flat: Option<Flat>,
}

/// Whether the cost of a step stays flat.
#[derive(Debug, Serialize)]
pub(crate) struct Flat {
    /// The cost of one more step between runs of 1 and 5 steps, and between runs of 5 and 60 steps.
    rows_per_further_step_short: f64,
    rows_per_further_step_long: f64,
    /// The size of the rows themselves, without unused space in SQLite pages.
    bytes_per_further_step_short: f64,
    bytes_per_further_step_long: f64,
    file_bytes_per_further_step_short: f64,
    file_bytes_per_further_step_long: f64,
    /// The cost of a 5-step run in a new file, and in a file with 100,000 runs.
    rows_per_run_early: f64,
    rows_per_run_late: f64,
    bytes_per_run_early: f64,
    bytes_per_run_late: f64,
    alone_step_ms_p50_early: f64,
    alone_step_ms_p50_late: f64,
}

/// The same load with runs of different lengths.
pub(crate) struct Lengths {
    pub(crate) single: Measured,
    pub(crate) short: Measured,
    pub(crate) long: Measured,
}

impl Linear5 {
    pub(crate) fn new(
        concurrent: &Measured,
        alone: &Measured,
        with_evidence: &Measured,
        flat: Option<Flat>,
    ) -> Self {
        let steps = concurrent.steps();
        Self {
            steps_per_s: round(steps / concurrent.took.as_secs_f64()),
            run_ms_p50: ms(percentile(&concurrent.runs, 50)),
            run_ms_p95: ms(percentile(&concurrent.runs, 95)),
            run_ms_p99: ms(percentile(&concurrent.runs, 99)),
            cpu_s_per_1000_steps: round(concurrent.cpu_s / steps * 1_000.0),
            bytes_per_1000_steps: round(count(concurrent.bytes) / steps * 1_000.0),
            fsyncs_per_step: round(count(concurrent.commits) / steps),
            rows_per_step: round(count(concurrent.rows) / steps),
            alone_step_ms_p50: step_ms(alone),
            steps_per_s_with_evidence: round(with_evidence.steps() / with_evidence.took.as_secs_f64()),
            cpu_s_per_1000_steps_with_evidence: round(with_evidence.cpu_s / with_evidence.steps() * 1_000.0),
            peak_mib: round(concurrent.peak_mib),
            runs: concurrent.load.runs,
            in_flight: concurrent.load.in_flight,
            steps_expected: steps,
            steps_recorded: concurrent.recorded,
            flat,
        }
    }
}

impl Flat {
    pub(crate) fn new(lengths: &Lengths, early: &Measured, late: &Measured) -> Self {
        let Lengths { single, short, long } = lengths;
        let rows = |measured: &Measured| count(measured.rows) / f64::from(measured.load.runs);
        let bytes = |measured: &Measured| count(measured.row_bytes) / f64::from(measured.load.runs);
        let file_bytes = |measured: &Measured| count(measured.bytes) / f64::from(measured.load.runs);
        Self {
            rows_per_further_step_short: round((rows(short) - rows(single)) / 4.0),
            rows_per_further_step_long: round((rows(long) - rows(short)) / 55.0),
            bytes_per_further_step_short: round((bytes(short) - bytes(single)) / 4.0),
            bytes_per_further_step_long: round((bytes(long) - bytes(short)) / 55.0),
            file_bytes_per_further_step_short: round((file_bytes(short) - file_bytes(single)) / 4.0),
            file_bytes_per_further_step_long: round((file_bytes(long) - file_bytes(short)) / 55.0),
            rows_per_run_early: round(rows(early)),
            rows_per_run_late: round(rows(late)),
            bytes_per_run_early: round(bytes(early)),
            bytes_per_run_late: round(bytes(late)),
            alone_step_ms_p50_early: step_ms(early),
            alone_step_ms_p50_late: step_ms(late),
        }
    }
}

/// Prints the report; fails if a step was not recorded.
pub(crate) fn print(report: &Linear5, json: bool) -> Result<(), String> {
    print_json(report, json)?;
    #[expect(clippy::float_cmp, reason = "both are whole numbers")]
    if count(report.steps_recorded) != report.steps_expected {
        return Err(format!("{} of {} steps are recorded", report.steps_recorded, report.steps_expected));
    }
    Ok(())
}

pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or_default()
}

fn step_ms(measured: &Measured) -> f64 {
    round(ms(percentile(&measured.runs, 50)) / f64::from(measured.load.steps))
}

pub(crate) fn per_s(number: u32, took: Duration) -> f64 {
    round(f64::from(number) / took.as_secs_f64())
}

pub(crate) fn ms(duration: Duration) -> f64 {
    round(duration.as_secs_f64() * 1_000.0)
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn count(number: u64) -> f64 {
    number as f64
}

pub(crate) fn print_json(report: &impl Serialize, json: bool) -> Result<(), String> {
    let text = if json { serde_json::to_string(report) } else { serde_json::to_string_pretty(report) };
    println!("{}", text.map_err(|error| error.to_string())?);
    Ok(())
}

fn round(number: f64) -> f64 {
    (number * 10_000.0).round() / 10_000.0
}
