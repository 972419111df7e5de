//! The rules, each a test whose name is the rule; `module` reads what they are about.

// Marked one by one, because the lints let helpers unwrap only where they can see that it is a test.

#[cfg(test)]
mod environment;
#[cfg(test)]
mod functions;
#[cfg(test)]
mod grants;
#[cfg(test)]
mod module;
#[cfg(test)]
mod names;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod server;
#[cfg(test)]
mod services;
#[cfg(test)]
mod shape;
#[cfg(test)]
mod statements;
#[cfg(test)]
mod storage;
