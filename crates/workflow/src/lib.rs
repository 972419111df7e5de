//! The workflow file: YAML in, a plan out.
//!
//! [`parse()`] reads a file from a stranger and gives back a [`domain::Plan`], or one error with its line, its
//! column and the way out. Texts in a plan may hold `${ … }`, an expression in CEL; [`CompiledPlan`] compiles
//! them once, and a [`Template`] binds them over a [`Scope`]: the run's input, the outputs of earlier steps
//! and facts about the run. Every name an expression uses is known before the run starts, so a plan also
//! says which outputs each step reads.
//!
//! Nothing here does I/O or keeps state. Binding the same template over the same scope gives the same value,
//! ends after a bounded amount of work, and treats whatever comes out of data as data.

mod builtin;
mod compiled;
mod error;
pub mod expression;
mod fields;
mod governance;
mod parse;
mod place;
mod reads;
pub mod reference;
mod retry;
mod scope;
mod step;
mod template;
mod text;
mod ticket;
mod trigger;
mod yaml;

pub use compiled::{CompiledPlan, CompiledStep, CompiledWork, InvalidPlan, Message};
pub use error::{Fault, WorkflowError};
pub use expression::{EvaluationFault, ExpressionFault};
pub use parse::{EXPRESSIONS_MAX, parse};
pub use place::Place;
pub use scope::Scope;
pub use template::{ExpressionError, InvalidTemplate, Template};
pub use yaml::SOURCE_BYTES_MAX;
