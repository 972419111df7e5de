//! The frame around every page.

use domain::Role;
use maud::{DOCTYPE, Markup, html};

use crate::at::Visitor;
use crate::form::TOKEN;

/// No style is injected and no text is run: the policy would refuse it.
const HTMX: &str = r#"{"includeIndicatorStyles":false,"allowEval":false,"historyEnabled":false}"#;

/// A page of the console.
pub(crate) struct Page<'a> {
    /// What it is called.
    pub(crate) title: &'a str,
    /// Under which entry of the menu it stands.
    pub(crate) under: Entry,
    /// Which events make it out of date.
    pub(crate) stream: Stream<'a>,
    /// What stands still while the rest is fetched again.
    pub(crate) head: Markup,
    /// What is fetched again.
    pub(crate) live: Markup,
    /// What stands still below it.
    pub(crate) foot: Markup,
}

/// The entries of the menu.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Overview,
    Runs,
    Approvals,
    Workflows,
    Health,
}

/// Which events make a page out of date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream<'a> {
    /// None: it is what it is.
    None,
    /// Those of the tenant.
    Tenant,
    /// Those of a run.
    Run(&'a str),
    /// No event tells; it is looked at every now and then.
    Untold,
}

impl Stream<'_> {
    fn address(self) -> Option<String> {
        match self {
            Self::None | Self::Untold => None,
            Self::Tenant => Some("/api/v1/stream".to_owned()),
            Self::Run(run) => Some(format!("/api/v1/runs/{run}/stream")),
        }
    }
}

const MENU: [(Entry, &str, &str, Role); 5] = [
    (Entry::Overview, "/", "Overview", Role::Viewer),
    (Entry::Runs, "/runs", "Runs", Role::Viewer),
    (Entry::Approvals, "/approvals", "Approvals", Role::Viewer),
    (Entry::Workflows, "/workflows", "Workflows", Role::Viewer),
    (Entry::Health, "/health", "Health", Role::Operator),
];

/// The page as `visitor` sees it.
pub(crate) fn page<S>(visitor: &Visitor<S>, page: &Page<'_>) -> Markup {
    let main = html! {
        (page.head)
        @if page.stream == Stream::None { div #live { (page.live) } } @else {
            p #live-state .soft role="status" {}
            div #live data-stream=[page.stream.address()] hx-get=(visitor.address) hx-trigger="changed from:body"
                hx-select="#live" hx-swap="outerHTML" { (page.live) }
        }
        (page.foot)
    };
    shell(page.title, &html! { (menu(visitor, page.under)) (who(visitor)) }, &main)
}

/// A page for whoever it may be: nothing of them stands on it.
pub(crate) fn bare(title: &str, main: &Markup) -> Markup {
    shell(title, &html! {}, main)
}

/// Leads the browser to `to`, from here.
pub(crate) fn bounce(to: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content=(format!("0;url={}", inside(to)));
                title { "Countersign" }
            }
            body { p { a href=(inside(to)) { "Go on" } } }
        }
    }
}

fn shell(title: &str, header: &Markup, main: &Markup) -> Markup {
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
                a.skip href="#main" { "Skip to the content" }
                header.top { a.brand href="/" { "Countersign" } (header) }
                main #main tabindex="-1" { (main) }
            }
        }
    }
}

fn menu<S>(visitor: &Visitor<S>, under: Entry) -> Markup {
    html! {
        nav aria-label="Console" {
            ul {
                @for (entry, address, name, role) in MENU {
                    @if visitor.may(role) {
                        li { a href=(address) aria-current=[(entry == under).then_some("page")] { (name) } }
                    }
                }
            }
        }
    }
}

fn who<S>(visitor: &Visitor<S>) -> Markup {
    let roles: Vec<&str> = visitor.caller.roles.iter().map(Role::as_str).collect();
    html! {
        div.who {
            span title=(roles.join(", ")) { (visitor.caller.person) " at " (visitor.caller.tenant) }
            form method="post" action="/logout" { (token(visitor)) button.plain type="submit" { "Log out" } }
        }
    }
}

/// What proves that a form is this session's.
pub(crate) fn token<S>(visitor: &Visitor<S>) -> Markup {
    html! { input type="hidden" name=(TOKEN) value=(visitor.session.token); }
}

/// Names with their values.
pub(crate) fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! {
        dl.facts { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
    }
}

/// The address within this server that `to` names; the first page, if it names another server.
pub(crate) fn inside(to: &str) -> &str {
    let here = to.starts_with('/') && !to.starts_with("//") && !to.contains(['\\', '\r', '\n', '\t']);
    if here { to } else { "/" }
}

/// `text` as a value in the query of an address.
pub(crate) fn encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let one = |byte: u8| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_to_another_server() {
        for there in
            ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "", "/\t/evil.example"]
        {
            assert_eq!(inside(there), "/", "{there}");
        }
        assert_eq!(inside("/runs/r-1?a=b"), "/runs/r-1?a=b");
    }

    #[test]
    fn a_value_cannot_leave_its_place_in_the_query() {
        assert_eq!(encoded("/runs?a=b&c d#e"), "/runs%3Fa%3Db%26c%20d%23e");
    }
}
