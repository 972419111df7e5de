//! Connections to external systems: the list, each connection, its test, and its removal.
//!
//! Connections are set with the CLI or the API: a form would invite users to enter a secret in place of its reference.

use api::{ApiError, request_key};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use domain::connection::CredentialSpec;
use domain::{ConnectionName, Role};
use engine::ResolvedConnection;
use maud::{Markup, html};
use serde::Deserialize;
use store::Store;

use crate::extract::{PathParams, SessionUser};
use crate::form::SessionForm;
use crate::layout::{self, MenuItem, Page, Stream, facts, token};
use crate::page_error::PageError;
use crate::text::InlineText;

pub(crate) async fn list<S: Store>(user: SessionUser<S>) -> Result<Html<String>, PageError> {
    let connections = user.handle.connections().await?;
    let live = html! {
        @if connections.is_empty() {
            p.soft { "No connections. An admin adds one with " code { "countersign connection set" } "." }
        } @else {
            table.cards {
                thead { tr {
                    th scope="col" { "Connection" } th scope="col" { "Kind" } th scope="col" { "Environment" }
                    th scope="col" { "Address" } th scope="col" { "Workspace" } th scope="col" { "Managed by" }
                } }
                tbody { @for resolved in connections.values() { tr {
                    td data-label="Connection" { a href={ "/connections/" (resolved.name) } { (resolved.name) } }
                    td data-label="Kind" { (resolved.connection.kind) }
                    td data-label="Environment" { (resolved.connection.environment) }
                    td data-label="Address" { code { (InlineText(&resolved.connection.base_url)) } }
                    td data-label="Workspace" { (workspace(resolved)) }
                    td data-label="Managed by" { (manager(resolved)) }
                } } }
            }
        }
    };
    let page = Page {
        title: "Connections",
        menu_item: MenuItem::Connections,
        stream: Stream::None,
        head: html! { h1 { "Connections" } p.soft { "The environment of an action is that of its connection." } },
        live,
        foot: html! {},
    };
    Ok(Html(layout::page(&user, &page).into_string()))
}

pub(crate) async fn show<S: Store>(
    user: SessionUser<S>,
    PathParams(name): PathParams<String>,
) -> Result<Html<String>, PageError> {
    let resolved = user.handle.connection(&parse(&name)?).await?;
    let connection = &resolved.connection;
    let live = html! {
        (facts(&[
            ("Kind", html! { (connection.kind) }),
            ("Address", html! { code { (InlineText(&connection.base_url)) } }),
            ("Environment", html! { (connection.environment) }),
            ("Workspace", workspace(&resolved)),
            ("Authentication", authentication(&user, connection.credential.as_ref())),
            ("Trusted certificates", html! { (certificates(&resolved)) }),
            ("Managed by", html! { (manager(&resolved)) }),
            ("Version", html! { (connection.version) }),
        ]))
        (actions(&user, &resolved)?)
    };
    let title = format!("Connection {}", resolved.name);
    let page = Page {
        title: &title,
        menu_item: MenuItem::Connections,
        stream: Stream::None,
        head: html! { h1 { (title) } },
        live,
        foot: html! { p { a href="/connections" { "All connections" } } },
    };
    Ok(Html(layout::page(&user, &page).into_string()))
}

#[derive(Deserialize)]
pub(crate) struct TestForm {
    /// The idempotency key of the form: sent twice, it starts one run.
    #[serde(default)]
    once: String,
}

/// Starts a run that tests the connection, and shows the run.
pub(crate) async fn test<S: Store>(
    PathParams(name): PathParams<String>,
    SessionForm { user, form }: SessionForm<S, TestForm>,
) -> Result<Response, PageError> {
    user.require_role(Role::Operator)?;
    let once = Some(form.once.as_str()).filter(|once| !once.is_empty());
    let key = request_key(&user.caller.credential, once)?;
    let started = user.handle.test_connection(&parse(&name)?, key).await?;
    Ok(Redirect::to(&format!("/runs/{}", started.run.run)).into_response())
}

#[derive(Deserialize)]
pub(crate) struct RemoveForm {}

pub(crate) async fn remove<S: Store>(
    PathParams(name): PathParams<String>,
    SessionForm { user, form: RemoveForm {} }: SessionForm<S, RemoveForm>,
) -> Result<Response, PageError> {
    user.require_role(Role::Admin)?;
    user.handle.remove_connection(&parse(&name)?).await?;
    Ok(Redirect::to("/connections").into_response())
}

/// An invalid name gets the page of an unknown connection.
fn parse(name: &str) -> Result<ConnectionName, PageError> {
    ConnectionName::new(name).map_err(|_| PageError::not_found("connection"))
}

fn workspace(resolved: &ResolvedConnection) -> Markup {
    html! { @match &resolved.connection.workspace { Some(own) => (own), None => "every workspace" } }
}

fn manager(resolved: &ResolvedConnection) -> &'static str {
    if resolved.by_operator { "operator" } else { "admin" }
}

/// Only admins see the reference to the secret. No page contains the secret.
fn authentication<S>(user: &SessionUser<S>, credential: Option<&CredentialSpec>) -> Markup {
    html! {
        @match credential {
            Some(credential) if user.has_role(Role::Admin) => code { (InlineText(&credential.to_string())) },
            Some(credential) => (credential.kind()),
            None => "none",
        }
    }
}

fn certificates(resolved: &ResolvedConnection) -> &'static str {
    match resolved.connection.options.ca {
        Some(_) => "those of the connection",
        None => "those of the operating system",
    }
}

/// What this user can do with the connection.
fn actions<S: Store>(user: &SessionUser<S>, resolved: &ResolvedConnection) -> Result<Markup, ApiError> {
    let page = format!("/connections/{}", resolved.name);
    let can_remove = user.has_role(Role::Admin) && !resolved.by_operator;
    let once = api::hex::<16>()?;
    Ok(html! {
        @if user.has_role(Role::Operator) {
            section aria-labelledby="test" {
                h2 #test { "Test" }
                p.soft { "Starts a run with one step. It fetches the credential and sends one request that changes nothing." }
                form.stack method="post" action={ (page) "/test" } {
                    (token(user))
                    input type="hidden" name="once" value=(once);
                    button.primary type="submit" { "Test connection" }
                }
            }
        }
        @if can_remove {
            div.verbs {
                details #action-remove {
                    summary { "Remove connection" }
                    form.stack method="post" action={ (page) "/remove" } {
                        (token(user))
                        p { "Steps that use the connection fail until it is added again. The audit log keeps it." }
                        button.danger type="submit" { "Remove connection" }
                    }
                }
            }
        }
    })
}
