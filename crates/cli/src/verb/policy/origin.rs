//! Where a policy comes from.

use api_types::PolicyFrom;
use domain::TenantId;

/// Where a policy comes from that was asked for `tenant`, in words.
pub(super) fn origin(from: &PolicyFrom, tenant: &TenantId) -> String {
    match from {
        PolicyFrom::Tenant(settled) => format!("settled by tenant {settled}"),
        PolicyFrom::Shipped => format!("ships with the program; tenant {tenant} has settled on none"),
        PolicyFrom::Sent => "sent with the question".to_owned(),
    }
}
