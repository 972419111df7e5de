//! What the killed-process test needs: the real binary, and a service that counts what is done to it.

pub mod binary;
pub mod counting;
