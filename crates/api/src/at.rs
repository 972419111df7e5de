//! The desk that a handler stands at, with the role that it takes.
//!
//! A handler names one of these among its arguments, and so cannot forget to ask.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use domain::Role;
use engine::Desk;
use store::Store;

use crate::Shared;
use crate::auth::Caller;
use crate::problem::Problem;

macro_rules! desks {
    ($($(#[$doc:meta])* $name:ident takes $role:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name<S> {
            /// The desk.
            pub desk: Desk<S>,
            /// Who stands at it.
            pub caller: Caller,
        }

        impl<S: Store> FromRequestParts<Shared<S>> for $name<S> {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, api: &Shared<S>) -> Result<Self, Problem> {
                let caller = api.gate.enter(&parts.headers, &parts.uri).await?;
                let desk = api.gate.desk(&caller, $role)?;
                Ok(Self { desk, caller })
            }
        }
    )*};
}

desks! {
    /// The desk of somebody who may look.
    Viewer takes Role::Viewer;
    /// The desk of somebody who may start runs and say how they go on.
    Operator takes Role::Operator;
    /// The desk of somebody who may answer.
    Approver takes Role::Approver;
    /// The desk of somebody who may settle what counts.
    Admin takes Role::Admin;
}
