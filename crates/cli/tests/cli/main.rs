//! Tests of the binary with real files and processes.

#[cfg(test)]
mod audit;
#[cfg(test)]
mod bundle;
#[cfg(test)]
mod check;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod dev;
#[cfg(test)]
mod dispatch;
#[cfg(test)]
mod drain;
#[cfg(test)]
mod env;
#[cfg(test)]
mod forged;
#[cfg(test)]
mod http_stub;
#[cfg(test)]
mod inbox;
#[cfg(test)]
mod manual;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod profile;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod rollback;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tenant;
#[cfg(test)]
mod timeline;
#[cfg(test)]
mod undo;
#[cfg(test)]
mod workers;
