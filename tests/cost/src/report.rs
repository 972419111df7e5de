//! The report: a bill that a person can go through line by line, or the same as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use crate::bill::Bill;
use crate::prices;

/// What was promised of `linear5`: dollars for a million steps, and round trips of a step.
const LINEAR5_USD_MAX: f64 = 6.0;
const LINEAR5_TRIPS_MAX: f64 = 2.0;
/// What was promised of `governed`.
const GOVERNED_USD_MAX: f64 = 12.0;
/// By how much a step of a long run may cost more or less than one of a short run.
const FLAT_WITHIN: f64 = 0.10;

/// What a step costs in short runs and in long ones, in dollars per million.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Flat {
    /// A run of one step, whatever the run itself costs included.
    pub(crate) single: f64,
    /// A step of a 5-step run, and of a 60-step run, with an equal part of the run's own cost.
    pub(crate) five: f64,
    pub(crate) sixty: f64,
    /// Each step beyond the first in a 5-step run, and in a 60-step run.
    pub(crate) further_of_five: f64,
    pub(crate) further_of_sixty: f64,
    /// The last against the one before.
    pub(crate) ratio: f64,
}

impl Flat {
    pub(crate) fn new(single: f64, five: f64, sixty: f64) -> Self {
        let further = |per_step: f64, steps: f64| (per_step * steps - single) / (steps - 1.0);
        let (further_of_five, further_of_sixty) = (further(five, 5.0), further(sixty, 60.0));
        Self {
            single,
            five,
            sixty,
            further_of_five,
            further_of_sixty,
            ratio: further_of_sixty / further_of_five,
        }
    }
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Report {
    pub(crate) linear5: Bill,
    pub(crate) governed: Bill,
    /// The governed run with one more change, which policy allows by itself.
    pub(crate) two_writes: Bill,
    /// What was promised, once more in one place.
    pub(crate) linear5_usd_per_million_steps: f64,
    pub(crate) linear5_round_trips_per_step: f64,
    pub(crate) governed_usd_per_million_steps: f64,
    /// What that change costs: intent, receipt, verdict and chained events, in place of a read.
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

    /// What was promised and is not so.
    pub(crate) fn missed(&self) -> Vec<String> {
        let Self { linear5, governed, flat, .. } = self;
        let mut missed = Vec::new();
        let mut check = |what: &str, bill: &Bill, most: f64| {
            if bill.usd_per_million_steps > most {
                let found = bill.usd_per_million_steps;
                missed.push(format!(
                    "{what} costs ${found:.2} per million steps, more than ${most:.2}; most of it: {}",
                    dearest(bill)
                ));
            }
        };
        check("linear5", linear5, LINEAR5_USD_MAX);
        check("governed", governed, GOVERNED_USD_MAX);
        if linear5.round_trips_per_step > LINEAR5_TRIPS_MAX {
            let found = linear5.round_trips_per_step;
            missed.push(format!("a step of linear5 waits {found:.2} times, more than {LINEAR5_TRIPS_MAX}"));
        }
        if let Some(flat) = flat.as_ref().filter(|flat| (flat.ratio - 1.0).abs() > FLAT_WITHIN) {
            missed.push(format!(
                "a further step of a 60-step run costs {:.2} times one of a 5-step run",
                flat.ratio
            ));
        }
        if let Some(flat) = flat.as_ref().filter(|flat| flat.sixty > flat.five * (1.0 + FLAT_WITHIN)) {
            missed.push(format!(
                "a step of a 60-step run costs ${:.2} per million, and of a 5-step run ${:.2}",
                flat.sixty, flat.five
            ));
        }
        missed
    }
}

/// The dearest line of a bill.
fn dearest(bill: &Bill) -> String {
    let dearest = bill.lines.iter().max_by(|a, b| a.usd.total_cmp(&b.usd));
    dearest.map_or_else(String::new, |line| {
        format!("{} {} ({}), ${:.2}", line.service, line.operation, line.about, line.usd)
    })
}

/// The report as text.
pub(crate) fn text(report: &Report) -> String {
    let mut text = String::new();
    page(&mut text, "linear5: five steps that touch nothing", &report.linear5);
    page(&mut text, "governed: five steps from a webhook, a change with one approval", &report.governed);
    let _ = writeln!(
        text,
        "with a second change, which policy allows by itself, a step costs ${:.2} per million: ${:.2} per million \
         such changes more than reads\n",
        report.two_writes.usd_per_million_steps, report.usd_per_million_governed_writes
    );
    if let Some(flat) = &report.flat {
        let _ = writeln!(
            text,
            "flat: each further step costs ${:.3} per million in 5-step runs and ${:.3} in 60-step runs: {:.2}\n\
             with its part of the run's own cost ${:.3} and ${:.3}; a run of one step costs ${:.3}\n",
            flat.further_of_five, flat.further_of_sixty, flat.ratio, flat.five, flat.sixty, flat.single
        );
    }
    peers(&mut text, report);
    text
}

fn page(text: &mut String, title: &str, bill: &Bill) {
    let _ = writeln!(text, "{title}\n{} runs, one after the other; count and units of one run\n", bill.runs);
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
        "{:>8} {:>8} {:<11} {:>12.4}  in all; ${:.2} for a million runs\n",
        "", "", "", bill.usd_per_million_steps, bill.usd_per_million_runs
    );
    let _ = writeln!(
        text,
        "per step  {:.2} WRU, {:.2} RRU, {:.2} SQS requests, {:.2} round trips (at most {}; with taking and giving \
         back the message {:.2})\nper run   {:.1} WRU, {:.1} RRU, {:.1} SQS requests, {:.1} S3 requests, {:.1} \
         requests to DynamoDB of which {:.2} failed,\n          {:.1} Lambda invocations of {:.4} GB-s\n",
        bill.wru_per_step,
        bill.rru_per_step,
        bill.sqs_per_step,
        bill.round_trips_per_step,
        bill.round_trips_of_a_step_max,
        bill.walk_round_trips_per_step,
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
    let ours = [("linear5", &report.linear5), ("governed", &report.governed)];
    for (name, bill) in ours {
        let _ = writeln!(text, "{:>12.2}  steps of {name}", bill.usd_per_million_steps);
    }
    for (name, usd, of) in prices::PEERS {
        let _ = writeln!(text, "{usd:>12}  {of} of {name}");
    }
}
