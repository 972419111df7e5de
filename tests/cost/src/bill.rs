//! The bill: the counted requests with their prices.

use serde::Serialize;

use crate::load::Counts;
use crate::meter::{Counters, Kind, Service, Tally};
use crate::prices;

/// Defines the memory size of the functions.
const FUNCTION: &str = include_str!("../../../infra/modules/function/variables.tf");

/// The compute time of a warm function.
const HANDLER_MS: f64 = 5.0;

/// The time a function waits for one answer of DynamoDB or SQS. Transactions take longest: single-digit milliseconds;
/// this is the upper end.
const TRIP_MS: f64 = 10.0;

/// Invocations of the `sweep` function in a month of 30 days: one per minute.
const SWEEPS_PER_MONTH: f64 = 43_200.0;

/// The number of steps per month over which the cost of the sweep is spread. This is a small installation: one step in
/// two and a half seconds.
const STEPS_PER_MONTH: f64 = 1_000_000.0;

const MILLION: f64 = 1e6;

/// A line of the bill. Count and units are per run; dollars are per million steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct BillLine {
    pub(crate) service: &'static str,
    pub(crate) operation: String,
    pub(crate) about: String,
    pub(crate) count: f64,
    pub(crate) units: f64,
    pub(crate) unit: &'static str,
    pub(crate) usd: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Bill {
    pub(crate) usd_per_million_steps: f64,
    pub(crate) usd_per_million_runs: f64,
    pub(crate) wru_per_step: f64,
    pub(crate) rru_per_step: f64,
    pub(crate) sqs_per_step: f64,
    pub(crate) s3_per_run: f64,
    pub(crate) round_trips_per_step: f64,
    /// The maximum over all steps.
    pub(crate) round_trips_of_a_step_max: u64,
    /// All round trips of tasks that advance a run, from receiving the message to deleting it, spread over the steps.
    pub(crate) advance_round_trips_per_step: f64,
    pub(crate) wru_per_run: f64,
    pub(crate) rru_per_run: f64,
    pub(crate) sqs_per_run: f64,
    pub(crate) dynamodb_requests_per_run: f64,
    /// Requests answered with an error, usually a failed condition.
    pub(crate) failed_requests_per_run: f64,
    pub(crate) lambda_invocations_per_run: f64,
    pub(crate) lambda_gb_seconds_per_run: f64,
    pub(crate) lambda_invocations_per_step: f64,
    pub(crate) lambda_gb_seconds_per_step: f64,
    pub(crate) runs: u32,
    pub(crate) steps_per_run: u16,
    #[serde(rename = "bill")]
    pub(crate) lines: Vec<BillLine>,
}

/// The default memory size of a function in the terraform module.
#[expect(clippy::expect_used, reason = "a bill without it would be wrong")]
fn function_gb() -> f64 {
    let variable = FUNCTION.split_once("variable \"memory_mb\"").map(|(_, rest)| rest);
    let default = variable.and_then(|rest| rest.split_once("default")).map(|(_, rest)| rest);
    let mb = default.and_then(|rest| rest.lines().next()?.trim_start_matches([' ', '=']).parse::<f64>().ok());
    mb.expect("infra/modules/function has a default for `memory_mb`") / 1024.0
}

/// Converts totals to values per run and prices per million steps.
#[derive(Clone, Copy)]
struct Share {
    runs: f64,
    steps: f64,
}

impl Share {
    fn line(self, service: &'static str, (operation, about): (&str, &str), amount: Amount) -> BillLine {
        BillLine {
            service,
            operation: operation.to_owned(),
            about: about.to_owned(),
            count: amount.count / self.runs,
            units: amount.units / self.runs,
            unit: amount.unit,
            usd: amount.units * amount.usd_per_million / (self.runs * self.steps),
        }
    }
}

/// A total over all runs.
#[derive(Clone, Copy)]
struct Amount {
    count: f64,
    units: f64,
    unit: &'static str,
    usd_per_million: f64,
}

impl Bill {
    pub(crate) fn of(counts: &Counts) -> Self {
        let share = Share { runs: f64::from(counts.runs), steps: f64::from(counts.steps) };
        let (invocations, gb_seconds) = functions(counts);
        let mut lines: Vec<BillLine> =
            counts.counters.tallies.iter().map(|(kind, tally)| counted(share, kind, tally)).collect();
        lines.extend(lambda(share, invocations, gb_seconds));
        lines.push(sweep(counts, share));
        let sum = |amount: fn(&Tally) -> f64, service| total(&counts.counters, service, amount);
        let wru = sum(|tally| tally.write_units, Service::DynamoDb);
        let rru = sum(|tally| tally.read_units, Service::DynamoDb);
        let sqs = sum(|tally| as_f64(tally.requests), Service::Sqs);
        let failed = sum(|tally| as_f64(tally.failed), Service::DynamoDb);
        let usd = lines.iter().map(|line| line.usd).sum::<f64>();
        let steps = share.runs * share.steps;
        Self {
            usd_per_million_steps: usd,
            usd_per_million_runs: usd * share.steps,
            wru_per_step: wru / steps,
            rru_per_step: rru / steps,
            sqs_per_step: sqs / steps,
            s3_per_run: sum(|tally| as_f64(tally.requests), Service::S3) / share.runs,
            round_trips_per_step: as_f64(counts.counters.steps.iter().sum()) / steps,
            round_trips_of_a_step_max: counts.counters.steps.iter().copied().max().unwrap_or_default(),
            advance_round_trips_per_step: as_f64(counts.counters.trips_of_advances()) / steps,
            wru_per_run: wru / share.runs,
            rru_per_run: rru / share.runs,
            sqs_per_run: sqs / share.runs,
            dynamodb_requests_per_run: sum(|tally| as_f64(tally.requests), Service::DynamoDb) / share.runs,
            failed_requests_per_run: failed / share.runs,
            lambda_invocations_per_run: invocations / share.runs,
            lambda_gb_seconds_per_run: gb_seconds / share.runs,
            lambda_invocations_per_step: invocations / steps,
            lambda_gb_seconds_per_step: gb_seconds / steps,
            runs: counts.runs,
            steps_per_run: counts.steps,
            lines,
        }
    }
}

fn counted(share: Share, kind: &Kind, tally: &Tally) -> BillLine {
    let requests = as_f64(tally.requests);
    let (units, unit, usd_per_million) = match (kind.service, kind.operation.as_str()) {
        (Service::DynamoDb, _) if tally.read_units > 0.0 => (tally.read_units, "RRU", prices::READ_UNITS),
        (Service::DynamoDb, _) => (tally.write_units, "WRU", prices::WRITE_UNITS),
        (Service::Sqs, _) => (requests, "requests", prices::SQS_REQUESTS),
        (Service::S3, "PutObject") => (requests, "PUT", prices::S3_PUTS),
        (Service::S3, _) => (requests, "GET", prices::S3_GETS),
    };
    let amount = Amount { count: requests, units, unit, usd_per_million };
    share.line(kind.service.name(), (&kind.operation, &kind.about), amount)
}

/// The number of invocations and their GB-seconds: compute time plus waiting time for each answer.
fn functions(counts: &Counts) -> (f64, f64) {
    let trips = counts.webhooks.iter().chain(&counts.answers);
    let (invocations, ms) = trips.fold((0.0, 0.0), |(invocations, ms), trips| {
        (invocations + 1.0, ms + HANDLER_MS + TRIP_MS * as_f64(*trips))
    });
    (invocations, ms / 1000.0 * function_gb())
}

fn lambda(share: Share, invocations: f64, gb_seconds: f64) -> Vec<BillLine> {
    if invocations == 0.0 {
        return Vec::new();
    }
    let amount = |units, unit, usd_per_million| Amount { count: invocations, units, unit, usd_per_million };
    let about = "webhook, slack";
    vec![
        share.line(
            "Lambda",
            ("invocation", about),
            amount(invocations, "invocations", prices::LAMBDA_REQUESTS),
        ),
        share.line(
            "Lambda",
            ("duration", about),
            amount(gb_seconds, "GB-s", prices::LAMBDA_GB_SECOND * MILLION),
        ),
    ]
}

/// The sweep function, spread over the steps of a month.
fn sweep(counts: &Counts, share: Share) -> BillLine {
    let read_units = total(&counts.sweep, Service::DynamoDb, |tally| tally.read_units);
    let gb_seconds = (HANDLER_MS + TRIP_MS * as_f64(counts.sweep_trips)) / 1000.0 * function_gb();
    let usd = read_units * prices::READ_UNITS / MILLION
        + prices::LAMBDA_REQUESTS / MILLION
        + gb_seconds * prices::LAMBDA_GB_SECOND;
    let per_step = SWEEPS_PER_MONTH / STEPS_PER_MONTH;
    BillLine {
        service: "Lambda",
        operation: "sweep, with its reads".to_owned(),
        about: "once a minute, over 1 M steps a month".to_owned(),
        count: per_step * share.steps,
        units: per_step * share.steps,
        unit: "invocations",
        usd: usd * per_step * MILLION,
    }
}

fn total(counters: &Counters, service: Service, amount: impl Fn(&Tally) -> f64) -> f64 {
    counters.tallies.iter().filter(|(kind, _)| kind.service == service).map(|(_, tally)| amount(tally)).sum()
}

fn as_f64(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}
