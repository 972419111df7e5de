//! The rules. The name of each test is the rule; `module` parses the files.

// Each module is marked, because the lints allow `unwrap` in a helper only if they see that it is test code.

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
mod shape;
#[cfg(test)]
mod statements;
#[cfg(test)]
mod storage;
