//! List prices in us-east-1, on demand, beyond every free tier, and what others take.
//!
//! As they were written down on the day below; each names the page where it can be looked up. Whoever changes a
//! number changes the day as well.

/// When they were written down.
pub(crate) const AS_OF: &str = "2026-11-15";

/// Dollars for a million of each.
/// <https://aws.amazon.com/dynamodb/pricing/on-demand/>
pub(crate) const WRITE_UNITS: f64 = 0.625;
pub(crate) const READ_UNITS: f64 = 0.125;
/// Standard queues. <https://aws.amazon.com/sqs/pricing/>
pub(crate) const SQS_REQUESTS: f64 = 0.40;
/// S3 Standard. <https://aws.amazon.com/s3/pricing/>
pub(crate) const S3_PUTS: f64 = 5.00;
pub(crate) const S3_GETS: f64 = 0.40;
/// <https://aws.amazon.com/lambda/pricing/>
pub(crate) const LAMBDA_REQUESTS: f64 = 0.20;
/// Dollars for one gigabyte-second on arm64.
pub(crate) const LAMBDA_GB_SECOND: f64 = 0.000_013_333_4;

/// What the same work is sold for elsewhere: dollars for a million of whatever they count.
pub(crate) const PEERS: [(&str, &str, &str); 4] = [
    ("Lambda durable functions", "8.00", "operations"),
    ("Step Functions Standard", "25.00", "transitions"),
    ("Temporal Cloud", "25.00-50.00", "actions"),
    ("SSM Automation", "2000.00", "steps"),
];
