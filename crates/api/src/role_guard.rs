//! Extractors that authenticate the caller and check a role.
//!
//! A handler gets its tenant handle only through one of these arguments, so it cannot skip the check.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use domain::Role;
use engine::TenantHandle;
use store::Store;

use crate::Shared;
use crate::auth::Caller;
use crate::problem::ApiError;

macro_rules! role_extractors {
    ($($(#[$doc:meta])* $name:ident requires $role:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name<S> {
            pub handle: TenantHandle<S>,
            pub caller: Caller,
        }

        impl<S: Store> FromRequestParts<Shared<S>> for $name<S> {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, api: &Shared<S>) -> Result<Self, ApiError> {
                let caller = api.authenticator.authenticate(&parts.headers, &parts.uri).await?;
                let handle = api.authenticator.handle(&caller, $role)?;
                Ok(Self { handle, caller })
            }
        }
    )*};
}

role_extractors! {
    /// A caller with the role viewer.
    Viewer requires Role::Viewer;
    /// A caller with the role operator.
    Operator requires Role::Operator;
    /// A caller with the role approver.
    Approver requires Role::Approver;
    /// A caller with the role admin.
    Admin requires Role::Admin;
}
