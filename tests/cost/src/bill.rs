//! The bill: what was counted, priced.

use serde::Serialize;

use crate::load::Counts;
use crate::meter::{Book, Kind, Service, Tally};
use crate::prices;

/// Where a function's memory is settled.
const FUNCTION: &str = include_str!("../../../infra/modules/function/variables.tf");

/// How long a warm function works for itself.
const HANDLER_MS: f64 = 5.0;

/// How long a function waits for one answer of DynamoDB or SQS. Transactions take longest: single-digit
/// milliseconds, and this is the upper end.
const TRIP_MS: f64 = 10.0;

/// How often the function `sweep` is started in a month of 30 days: once a minute.
const SWEEPS_PER_MONTH: f64 = 43_200.0;

/// Over how many steps a month the sweep's cost is spread. A small installation does this many: one step in
/// two and a half seconds.
const STEPS_PER_MONTH: f64 = 1_000_000.0;

const MILLION: f64 = 1e6;

/// A line of the bill. Count and units are those of one run; dollars are for a million steps.
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

/// What a load costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Bill {
    pub(crate) usd_per_million_steps: f64,
    pub(crate) usd_per_million_runs: f64,
    pub(crate) wru_per_step: f64,
    pub(crate) rru_per_step: f64,
    pub(crate) sqs_per_step: f64,
    pub(crate) s3_per_run: f64,
    pub(crate) round_trips_per_step: f64,
    /// The most that any step waited.
    pub(crate) round_trips_of_a_step_max: u64,
    /// Everything that walks wait for, from the message's entry to its end, spread over the steps.
    pub(crate) walk_round_trips_per_step: f64,
    pub(crate) wru_per_run: f64,
    pub(crate) rru_per_run: f64,
    pub(crate) sqs_per_run: f64,
    pub(crate) dynamodb_requests_per_run: f64,
    /// Requests that were answered with an error, most often a condition that did not hold.
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

/// A function's memory, as terraform gives it where nobody says otherwise.
#[expect(clippy::expect_used, reason = "a bill without it would be wrong")]
fn function_gb() -> f64 {
    let variable = FUNCTION.split_once("variable \"memory_mb\"").map(|(_, rest)| rest);
    let default = variable.and_then(|rest| rest.split_once("default")).map(|(_, rest)| rest);
    let mb = default.and_then(|rest| rest.lines().next()?.trim_start_matches([' ', '=']).parse::<f64>().ok());
    mb.expect("infra/modules/function says how much memory a function has") / 1024.0
}

/// Turns totals into parts of one run and prices for a million steps.
#[derive(Clone, Copy)]
struct Share {
    runs: f64,
    steps: f64,
}

impl Share {
    fn line(self, service: &'static str, (operation, about): (&str, &str), spent: Spent) -> BillLine {
        BillLine {
            service,
            operation: operation.to_owned(),
            about: about.to_owned(),
            count: spent.count / self.runs,
            units: spent.units / self.runs,
            unit: spent.unit,
            usd: spent.units * spent.usd_per_million / (self.runs * self.steps),
        }
    }
}

/// What was spent in all.
#[derive(Clone, Copy)]
struct Spent {
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
            counts.book.tallies.iter().map(|(kind, tally)| counted(share, kind, tally)).collect();
        lines.extend(lambda(share, invocations, gb_seconds));
        lines.push(sweep(counts, share));
        let sum = |amount: fn(&Tally) -> f64, service| total(&counts.book, service, amount);
        let wru = sum(|tally| tally.write_units, Service::DynamoDb);
        let rru = sum(|tally| tally.read_units, Service::DynamoDb);
        let sqs = sum(|tally| real(tally.requests), Service::Sqs);
        let failed = sum(|tally| real(tally.failed), Service::DynamoDb);
        let usd = lines.iter().map(|line| line.usd).sum::<f64>();
        let steps = share.runs * share.steps;
        Self {
            usd_per_million_steps: usd,
            usd_per_million_runs: usd * share.steps,
            wru_per_step: wru / steps,
            rru_per_step: rru / steps,
            sqs_per_step: sqs / steps,
            s3_per_run: sum(|tally| real(tally.requests), Service::S3) / share.runs,
            round_trips_per_step: real(counts.book.steps.iter().sum()) / steps,
            round_trips_of_a_step_max: counts.book.steps.iter().copied().max().unwrap_or_default(),
            walk_round_trips_per_step: real(counts.book.trips_of_walks()) / steps,
            wru_per_run: wru / share.runs,
            rru_per_run: rru / share.runs,
            sqs_per_run: sqs / share.runs,
            dynamodb_requests_per_run: sum(|tally| real(tally.requests), Service::DynamoDb) / share.runs,
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
    let requests = real(tally.requests);
    let (units, unit, usd_per_million) = match (kind.service, kind.operation.as_str()) {
        (Service::DynamoDb, _) if tally.read_units > 0.0 => (tally.read_units, "RRU", prices::READ_UNITS),
        (Service::DynamoDb, _) => (tally.write_units, "WRU", prices::WRITE_UNITS),
        (Service::Sqs, _) => (requests, "requests", prices::SQS_REQUESTS),
        (Service::S3, "PutObject") => (requests, "PUT", prices::S3_PUTS),
        (Service::S3, _) => (requests, "GET", prices::S3_GETS),
    };
    let spent = Spent { count: requests, units, unit, usd_per_million };
    share.line(kind.service.name(), (&kind.operation, &kind.about), spent)
}

/// Invocations of functions, and for how long they work: for themselves, and for each answer they wait for.
fn functions(counts: &Counts) -> (f64, f64) {
    let trips = counts.webhooks.iter().chain(&counts.answers);
    let (invocations, ms) = trips.fold((0.0, 0.0), |(invocations, ms), trips| {
        (invocations + 1.0, ms + HANDLER_MS + TRIP_MS * real(*trips))
    });
    (invocations, ms / 1000.0 * function_gb())
}

fn lambda(share: Share, invocations: f64, gb_seconds: f64) -> Vec<BillLine> {
    if invocations == 0.0 {
        return Vec::new();
    }
    let spent = |units, unit, usd_per_million| Spent { count: invocations, units, unit, usd_per_million };
    let about = "webhook, slack";
    vec![
        share.line(
            "Lambda",
            ("invocation", about),
            spent(invocations, "invocations", prices::LAMBDA_REQUESTS),
        ),
        share.line(
            "Lambda",
            ("duration", about),
            spent(gb_seconds, "GB-s", prices::LAMBDA_GB_SECOND * MILLION),
        ),
    ]
}

/// The function that looks for what is overdue, spread over the steps of a month.
fn sweep(counts: &Counts, share: Share) -> BillLine {
    let queries = total(&counts.sweep, Service::DynamoDb, |tally| real(tally.requests));
    let read_units = total(&counts.sweep, Service::DynamoDb, |tally| tally.read_units);
    let gb_seconds = (HANDLER_MS + TRIP_MS * queries) / 1000.0 * function_gb();
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

fn total(book: &Book, service: Service, amount: impl Fn(&Tally) -> f64) -> f64 {
    book.tallies.iter().filter(|(kind, _)| kind.service == service).map(|(_, tally)| amount(tally)).sum()
}

/// A count as a number to calculate with.
fn real(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}
