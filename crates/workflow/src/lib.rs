//! Parses workflow files: YAML goes in, a plan comes out.
//!
//! [`parse()`] turns an untrusted file into a [`domain::Plan`], or into one error with line, column and fix. Strings in a
//! plan may contain `${ … }`, a CEL expression. [`CompiledPlan`] compiles them once, and a [`Template`] binds them to the
//! values of a [`Scope`]: the run's input, the outputs of earlier steps and metadata of the run. All names in an
//! expression are resolved before the run starts, so a plan also lists the outputs that each step reads.
//!
//! This crate does no I/O and keeps no state. Binding a template to the same scope gives the same value, takes a bounded
//! amount of work, and never evaluates text from the data.

mod builtin;
mod compiled;
mod concurrency;
mod error;
pub mod expression;
mod fields;
mod governance;
mod literal_secret;
mod parse;
mod position;
mod reads;
pub mod reference;
mod retry;
mod step;
mod template;
mod text;
mod trigger;
mod yaml;

pub use compiled::{CompiledPlan, CompiledStep, CompiledWork, InvalidPlan, MessageTemplate};
pub use error::{ParseErrorKind, StepLabel, WorkflowError};
pub use expression::{ExpressionCompileError, ExpressionEvalError};
pub use parse::{EXPRESSIONS_MAX, ToolFields, parse, parse_for};
pub use position::SourcePosition;
pub use template::{BindError, InvalidTemplate, Scope, Template};
pub use yaml::SOURCE_BYTES_MAX;
