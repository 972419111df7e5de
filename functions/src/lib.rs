//! The AWS Lambda functions: `webhook`, `slack` and `sweep`.
//!
//! The request handlers are in the `ingress` crate; this crate adapts them to the Lambda runtime.

#[cfg(feature = "lambda")]
pub mod lambda;
pub mod sweep;
