//! What a tenant has settled.

use axum::Json;
use axum::extract::State;
use domain::Tenant as Settled;
use domain::tenant::{Caps, Person};
use engine::Settle;
use store::Store;

use crate::Shared;
use crate::at::{Admin, Viewer};
use crate::extract::Sent;
use crate::problem::Problem;
use api_types::{PutTenant, SecretNames, Tenant};

/// What is settled.
pub(crate) async fn show<S: Store>(Viewer { handle, .. }: Viewer<S>) -> Result<Json<Tenant>, Problem> {
    let settled = handle.settled().await?;
    let nothing = || Tenant { revision: None, ..Settled::new(handle.tenant_id().clone()).into() };
    Ok(Json(settled.map_or_else(nothing, Tenant::from)))
}

/// Settles people, groups and caps anew.
pub(crate) async fn put<S: Store>(
    Admin { handle, .. }: Admin<S>,
    Sent(put): Sent<PutTenant>,
) -> Result<Json<Tenant>, Problem> {
    let PutTenant { caps, people, groups, revision } = put;
    let settle = Settle {
        caps: Caps { max_writes_per_run: caps.max_writes_per_run },
        people: people.into_iter().map(|(id, person)| (id, Person { slack: person.slack })).collect(),
        groups,
        seen: revision,
    };
    Ok(Json(handle.settle(settle).await?.into()))
}

/// What other systems prove themselves with, by name.
pub(crate) async fn secrets<S: Store>(
    State(api): State<Shared<S>>,
    Admin { handle, .. }: Admin<S>,
) -> Json<SecretNames> {
    Json(SecretNames { secrets: api.secrets.get(handle.tenant_id()).cloned().unwrap_or_default() })
}
