//! Where a list or a piece of work goes on, as an address or a form says it: sealed, as the API's cursors are.

use api::{List, Problem};
use store::{Cursor, Store};

use crate::Shared;
use crate::at::Visitor;

/// A list of the visitor's tenant, filtered in one way. The API's lists have other names, so that nothing leads from
/// one into the other.
pub(crate) fn list<'a, S: Store>(
    console: &'a Shared<S>,
    visitor: &'a Visitor<S>,
    name: &'static str,
    filter: String,
) -> List<'a> {
    List { secret: &console.cursors, tenant: visitor.handle.tenant_id(), name, filter }
}

/// Where the list goes on; at its beginning, if nothing says otherwise.
pub(crate) fn opened(list: &List<'_>, text: &str) -> Result<Option<Cursor>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let unknown = |_| {
        Problem::bad_request("the address leads to no page of this list")
            .remedy("begin with the first page; a later one belongs to its filters and to your tenant")
    };
    list.open(text).map(Some).map_err(unknown)
}
