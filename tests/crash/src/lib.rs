//! Helpers of the crash tests: the real binary, and a service that counts its effects.

pub mod binary;
pub mod counting;
