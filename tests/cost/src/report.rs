//! The report: a bill with one line for each kind of request, as text or JSON.

use std::fmt::Write as _;

use serde::Serialize;

use crate::bill::Bill;
use crate::prices;

/// The limits of `linear5`: dollars per million steps, and round trips per step.
const LINEAR5_USD_MAX: f64 = 6.0;
const LINEAR5_TRIPS_MAX: f64 = 2.0;
/// The limit of `governed`.
const GOVERNED_USD_MAX: f64 = 12.0;
/// The allowed relative difference between a step of a long run and of a short run.
const FLAT_WITHIN: f64 = 0.10;

/// The cost of a step in short and in long runs, in dollars per million.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Flat {
    /// A run of one step, including the cost of the run itself.
    pub(crate) single: f64,
    /// A step of a 5-step run, and of a 60-step run, with an equal share of the cost of the run itself.
    pub(crate) five: f64,
    pub(crate) sixty: f64,
    /// Each step after the first in a 5-step run, and in a 60-step run.
    pub(crate) next_step_of_five: f64,
    pub(crate) next_step_of_sixty: f64,
    /// `next_step_of_sixty` / `next_step_of_five`.
    pub(crate) ratio: f64,
}

impl Flat {
    pub(crate) fn new(single: f64, five: f64, sixty: f64) -> Self {
        let further = |per_step: f64, steps: f64| (per_step * steps - single) / (steps - 1.0);
        let (next_step_of_five, next_step_of_sixty) = (further(five, 5.0), further(sixty, 60.0));
        Self {
            single,
            five,
            sixty,
            next_step_of_five,
            next_step_of_sixty,
            ratio: next_step_of_sixty / next_step_of_five,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Report {
    pub(crate) linear5: Bill,
    pub(crate) governed: Bill,
    /// The governed run with one more write, which policy allows without an approval.
    pub(crate) two_writes: Bill,
    /// The values with limits, at the top level for `cargo xtask test`.
    pub(crate) linear5_usd_per_million_steps: f64,
    pub(crate) linear5_round_trips_per_step: f64,
    pub(crate) governed_usd_per_million_steps: f64,
    /// The cost of that write (intent, receipt, verdict and chained events) in place of a read.
    pub(crate) usd_per_million_governed_writes: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flat: Option<Flat>,
}

impl Report {
    pub(crate) fn new(linear5: Bill, governed: Bill, two_writes: Bill, flat: Option<Flat>) -> Self {
        Self {
            linear5_usd_per_million_steps: linear5.usd_per_million_steps,
            linear5_round_trips_per_step: linear5.round_trips_per_step,
            governed_usd_per_million_steps: governed.usd_per_million_steps,
            usd_per_million_governed_writes: two_writes.usd_per_million_runs - governed.usd_per_million_runs,
            linear5,
            governed,
            two_writes,
            flat,
        }
    }

    /// A message for each limit that is exceeded.
    pub(crate) fn exceeded(&self) -> Vec<String> {
        let Self { linear5, governed, flat, .. } = self;
        let mut exceeded = Vec::new();
        let mut check = |name: &str, bill: &Bill, most: f64| {
            if bill.usd_per_million_steps > most {
                let found = bill.usd_per_million_steps;
                exceeded.push(format!(
                    "{name} costs ${found:.2} per million steps; the limit is ${most:.2}; most expensive: {}",
                    most_expensive(bill)
                ));
            }
        };
        check("linear5", linear5, LINEAR5_USD_MAX);
        check("governed", governed, GOVERNED_USD_MAX);
        if linear5.round_trips_per_step > LINEAR5_TRIPS_MAX {
            let found = linear5.round_trips_per_step;
            exceeded.push(format!(
                "a step of linear5 takes {found:.2} round trips; the limit is {LINEAR5_TRIPS_MAX}"
            ));
        }
        if let Some(flat) = flat.as_ref().filter(|flat| (flat.ratio - 1.0).abs() > FLAT_WITHIN) {
            exceeded.push(format!(
                "a step after the first of a 60-step run costs {:.2} times that of a 5-step run",
                flat.ratio
            ));
        }
        if let Some(flat) = flat.as_ref().filter(|flat| flat.sixty > flat.five * (1.0 + FLAT_WITHIN)) {
            exceeded.push(format!(
                "a step of a 60-step run costs ${:.2} per million; a step of a 5-step run costs ${:.2}",
                flat.sixty, flat.five
            ));
        }
        exceeded
    }
}

/// The most expensive line of a bill.
fn most_expensive(bill: &Bill) -> String {
    let most_expensive = bill.lines.iter().max_by(|a, b| a.usd.total_cmp(&b.usd));
    most_expensive.map_or_else(String::new, |line| {
        format!("{} {} ({}), ${:.2}", line.service, line.operation, line.about, line.usd)
    })
}

pub(crate) fn text(report: &Report) -> String {
    let mut text = String::new();
    page(&mut text, "linear5: five steps without effects", &report.linear5);
    page(
        &mut text,
        "governed: five steps started by a webhook, one write with an approval",
        &report.governed,
    );
    let _ = writeln!(
        text,
        "with a second write, which policy allows without an approval, a step costs ${:.2} per million; a write \
         costs ${:.2} per million more than a read\n",
        report.two_writes.usd_per_million_steps, report.usd_per_million_governed_writes
    );
    if let Some(flat) = &report.flat {
        let _ = writeln!(
            text,
            "flat: each step after the first costs ${:.3} per million in 5-step runs and ${:.3} in 60-step runs \
             (ratio {:.2})\nwith a share of the cost of the run: ${:.3} and ${:.3}; a run of one step: ${:.3}\n",
            flat.next_step_of_five, flat.next_step_of_sixty, flat.ratio, flat.five, flat.sixty, flat.single
        );
    }
    peers(&mut text, report);
    text
}

fn page(text: &mut String, title: &str, bill: &Bill) {
    let _ = writeln!(text, "{title}\n{} runs, one after the other; count and units are per run\n", bill.runs);
    let _ = writeln!(text, "{:>8} {:>8} {:<11} {:>12}", "count", "units", "", "$ / M steps");
    for line in &bill.lines {
        let _ = writeln!(
            text,
            "{:>8.2} {:>8.2} {:<11} {:>12.4}  {} {}: {}",
            line.count, line.units, line.unit, line.usd, line.service, line.operation, line.about
        );
    }
    let _ = writeln!(
        text,
        "{:>8} {:>8} {:<11} {:>12.4}  total; ${:.2} per million runs\n",
        "", "", "", bill.usd_per_million_steps, bill.usd_per_million_runs
    );
    let _ = writeln!(
        text,
        "per step  {:.2} WRU, {:.2} RRU, {:.2} SQS requests, {:.2} round trips (maximum {}; with receiving and \
         deleting the message {:.2})\nper run   {:.1} WRU, {:.1} RRU, {:.1} SQS requests, {:.1} S3 requests, {:.1} \
         DynamoDB requests ({:.2} failed),\n          {:.1} Lambda invocations of {:.4} GB-s\n",
        bill.wru_per_step,
        bill.rru_per_step,
        bill.sqs_per_step,
        bill.round_trips_per_step,
        bill.round_trips_of_a_step_max,
        bill.advance_round_trips_per_step,
        bill.wru_per_run,
        bill.rru_per_run,
        bill.sqs_per_run,
        bill.s3_per_run,
        bill.dynamodb_requests_per_run,
        bill.failed_requests_per_run,
        bill.lambda_invocations_per_run,
        bill.lambda_gb_seconds_per_run,
    );
}

fn peers(text: &mut String, report: &Report) {
    let _ = writeln!(text, "List prices in us-east-1 as of {}, in dollars per million:\n", prices::AS_OF);
    for (name, bill) in [("linear5", &report.linear5), ("governed", &report.governed)] {
        let _ = writeln!(text, "{:>12.2}  steps of {name}", bill.usd_per_million_steps);
    }
    for (name, usd, of) in prices::PEERS {
        let _ = writeln!(text, "{usd:>12}  {of} of {name}");
    }
}
