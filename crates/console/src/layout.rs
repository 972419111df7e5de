//! The page layout.

use domain::Role;
use maud::{DOCTYPE, Markup, html};

use crate::extract::SessionUser;
use crate::form::TOKEN;

/// htmx injects no styles and evaluates no text: the content security policy forbids both.
const HTMX: &str = r#"{"includeIndicatorStyles":false,"allowEval":false,"historyEnabled":false}"#;

pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    pub(crate) menu_item: MenuItem,
    pub(crate) stream: Stream<'a>,
    /// Above the live part; not updated.
    pub(crate) head: Markup,
    /// Updated when an event arrives.
    pub(crate) live: Markup,
    /// Below the live part; not updated.
    pub(crate) foot: Markup,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MenuItem {
    Overview,
    Runs,
    Approvals,
    Workflows,
    Connections,
    Audit,
    Health,
}

/// The events that trigger an update of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream<'a> {
    /// The page is never updated.
    None,
    Tenant,
    Run(&'a str),
    /// There are no events; the page is updated at intervals.
    Poll,
}

impl Stream<'_> {
    fn address(self) -> Option<String> {
        match self {
            Self::None | Self::Poll => None,
            Self::Tenant => Some("/api/v1/stream".to_owned()),
            Self::Run(run) => Some(format!("/api/v1/runs/{run}/stream")),
        }
    }
}

const MENU: [(MenuItem, &str, &str, Role); 7] = [
    (MenuItem::Overview, "/", "Overview", Role::Viewer),
    (MenuItem::Runs, "/runs", "Runs", Role::Viewer),
    (MenuItem::Approvals, "/approvals", "Approvals", Role::Viewer),
    (MenuItem::Workflows, "/workflows", "Workflows", Role::Viewer),
    (MenuItem::Connections, "/connections", "Connections", Role::Viewer),
    (MenuItem::Audit, "/audit", "Audit log", Role::Admin),
    (MenuItem::Health, "/health", "Health", Role::Operator),
];

pub(crate) fn page<S>(user: &SessionUser<S>, page: &Page<'_>) -> Markup {
    let main = html! {
        (page.head)
        @if page.stream == Stream::None { div #live { (page.live) } } @else {
            p #live-state .soft role="status" {}
            div #live data-stream=[page.stream.address()] hx-get=(user.address) hx-trigger="changed from:body"
                hx-select="#live" hx-swap="outerHTML" { (page.live) }
        }
        (page.foot)
    };
    document(page.title, &html! { (menu(user, page.menu_item)) (user_menu(user)) }, &main)
}

/// A page without any data of the user.
pub(crate) fn page_without_user(title: &str, main: &Markup) -> Markup {
    document(title, &html! {}, main)
}

/// Redirects the browser to `to` from a page of this server.
pub(crate) fn redirect_page(to: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content=(format!("0;url={}", local_path(to)));
                title { "Countersign" }
                // Without this, browsers request `/favicon.ico`.
                link rel="icon" href="/static/mark.svg" type="image/svg+xml";
            }
            body { p { a href=(local_path(to)) { "Continue" } } }
        }
    }
}

fn document(title: &str, header: &Markup, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="htmx-config" content=(HTMX);
                title { (title) " · Countersign" }
                link rel="icon" href="/static/mark.svg" type="image/svg+xml";
                link rel="stylesheet" href="/static/console.css";
                script src="/static/htmx.min.js" defer {}
                script src="/static/live.js" defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header.top { a.brand href="/" { "Countersign" } (header) }
                main #main tabindex="-1" { (main) }
            }
        }
    }
}

fn menu<S>(user: &SessionUser<S>, current: MenuItem) -> Markup {
    html! {
        nav aria-label="Console" {
            ul {
                @for (entry, address, name, role) in MENU {
                    @if user.has_role(role) {
                        li { a href=(address) aria-current=[(entry == current).then_some("page")] { (name) } }
                    }
                }
            }
        }
    }
}

fn user_menu<S>(user: &SessionUser<S>) -> Markup {
    let roles: Vec<&str> = user.caller.roles.iter().map(Role::as_str).collect();
    html! {
        div.who {
            span title=(roles.join(", ")) { (user.caller.person) " at " (user.caller.tenant) }
            form method="post" action="/logout" { (token(user)) button.plain type="submit" { "Log out" } }
        }
    }
}

/// The hidden field with the session's token.
pub(crate) fn token<S>(user: &SessionUser<S>) -> Markup {
    html! { input type="hidden" name=(TOKEN) value=(user.session.token); }
}

/// A list of names and values.
pub(crate) fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! {
        dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
    }
}

/// `to`, if it is a path on this server; otherwise the first page.
pub(crate) fn local_path(to: &str) -> &str {
    let is_odd = |c: char| c == '\\' || c.is_control();
    let here = to.starts_with('/') && !to.starts_with("//") && !to.contains(is_odd);
    if here { to } else { "/" }
}

/// `text` as a URL query value.
pub(crate) fn query_encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let one = |byte: u8| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_path_rejects_other_servers() {
        for there in [
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "evil",
            "",
            "/\t/evil.example",
            "/\u{1}",
            "/\u{7f}",
        ] {
            assert_eq!(local_path(there), "/", "{there}");
        }
        assert_eq!(local_path("/runs/r-1?a=b"), "/runs/r-1?a=b");
    }

    #[test]
    fn encoded_value_stays_in_its_parameter() {
        assert_eq!(query_encoded("/runs?a=b&c d#e"), "/runs%3Fa%3Db%26c%20d%23e");
    }
}
