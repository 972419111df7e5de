//! The program as a person and a script meet it: the real binary, real files, real processes.

#[cfg(test)]
mod arrived;
#[cfg(test)]
mod bundle;
#[cfg(test)]
mod check;
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
mod journey;
#[cfg(test)]
mod manual;
#[cfg(test)]
mod outside;
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
mod serve;
#[cfg(test)]
mod server;
#[cfg(test)]
mod shell;
#[cfg(test)]
mod tenant;
#[cfg(test)]
mod timeline;
#[cfg(test)]
mod undo;
#[cfg(test)]
mod workers;
