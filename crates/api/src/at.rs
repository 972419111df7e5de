//! The handle that a handler stands at, with the role that it takes.
//!
//! A handler names one of these among its arguments, and so cannot forget to ask.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use domain::Role;
use engine::TenantHandle;
use store::Store;

use crate::Shared;
use crate::auth::Caller;
use crate::problem::Problem;

macro_rules! desks {
    ($($(#[$doc:meta])* $name:ident takes $role:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name<S> {
            /// The handle.
            pub handle: TenantHandle<S>,
            /// Who stands at it.
            pub caller: Caller,
        }

        impl<S: Store> FromRequestParts<Shared<S>> for $name<S> {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, api: &Shared<S>) -> Result<Self, Problem> {
                let caller = api.gate.enter(&parts.headers, &parts.uri).await?;
                let handle = api.gate.handle(&caller, $role)?;
                Ok(Self { handle, caller })
            }
        }
    )*};
}

desks! {
    /// The handle of somebody who may look.
    Viewer takes Role::Viewer;
    /// The handle of somebody who may start runs and say how they go on.
    Operator takes Role::Operator;
    /// The handle of somebody who may answer.
    Approver takes Role::Approver;
    /// The handle of somebody who may settle what counts.
    Admin takes Role::Admin;
}
