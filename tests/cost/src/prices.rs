//! List prices in us-east-1, on demand, beyond every free tier, and the prices of similar services.
//!
//! Each price links to its page. Update `AS_OF` when you change a price.

/// The date of the prices.
pub(crate) const AS_OF: &str = "2026-11-15";

/// Dollars per million.
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
/// Dollars per gigabyte-second on arm64.
pub(crate) const LAMBDA_GB_SECOND: f64 = 0.000_013_333_4;

/// Similar services: dollars per million of their billing unit.
pub(crate) const PEERS: [(&str, &str, &str); 4] = [
    ("Lambda durable functions", "8.00", "operations"),
    ("Step Functions Standard", "25.00", "transitions"),
    ("Temporal Cloud", "25.00-50.00", "actions"),
    ("SSM Automation", "2000.00", "steps"),
];
