//! Cursors of lists and of resumable work, encrypted like the API's cursors.

use api::{ApiError, List};
use store::{Cursor, Store};

use crate::Shared;
use crate::extract::SessionUser;

/// A filtered list of the user's tenant. The API's lists have other names, so their cursors are not valid here.
pub(crate) fn list<'a, S: Store>(
    console: &'a Shared<S>,
    user: &'a SessionUser<S>,
    name: &'static str,
    filter: String,
) -> List<'a> {
    List { secret: &console.cursors, tenant: user.handle.tenant_id(), name, filter }
}

/// The cursor in `text`; `None` for the first page.
pub(crate) fn open_cursor(list: &List<'_>, text: &str) -> Result<Option<Cursor>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    let invalid = |_| {
        ApiError::bad_request("the page link is not valid for this list")
            .remedy("start with the first page; a link is valid for its filters and your tenant only")
    };
    list.open(text).map(Some).map_err(invalid)
}
