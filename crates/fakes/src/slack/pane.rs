//! The page on which a developer presses the buttons.
//!
//! It has no script, and every text is escaped. A press is signed and sent to the callback URL as Slack would send it.
//! Requests from another origin are rejected, because another open page could post here.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::extract::State as Extracted;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

use super::callback::{ButtonPress, Callback, ShortcutUse, Submission, deliver};
use super::state::State;
use super::{FakeMessage, FakeShortcut, FakeSlackSettings, Shared, View};

const STYLE: &str = "body{font:15px/1.4 system-ui;max-width:46rem;margin:2rem auto;padding:0 1rem}\
article,dialog{border:1px solid #ccc;border-radius:6px;padding:.6rem 1rem;margin:1rem 0;position:static}\
article.under{margin-left:2rem}p{white-space:pre-wrap;overflow-wrap:anywhere;margin:.4rem 0}\
small{color:#555}form{display:flex;gap:.5rem;margin:.5rem 0}.primary{color:#007a5a}.danger{color:#c01343}";

/// Shows all messages and open modals.
pub(super) async fn page(Extracted(state): Extracted<Shared>) -> Html<String> {
    let state = state.lock();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { "Fake Slack" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Fake Slack" }
                @if let Some(note) = &state.note { p { strong { (note) } } }
                (shortcuts(&state.settings, None))
                @for view in &state.views { (modal_view(view)) }
                @if state.messages.is_empty() { p { "No messages yet." } }
                @for message in &state.messages { (message_view(message, &state.settings)) }
            }
        }
    };
    Html(page.into_string())
}

/// The shortcuts for `message`; without a message, the global ones.
fn shortcuts(settings: &FakeSlackSettings, message: Option<&FakeMessage>) -> Markup {
    let offered = |shortcut: &&FakeShortcut| shortcut.on_message == message.is_some();
    let offered: Vec<_> = settings.shortcuts.iter().filter(offered).collect();
    html! {
        @if !offered.is_empty() {
            form method="post" action="/pane/shortcut" {
                @if let Some(message) = message { input type="hidden" name="place" value=(message.place()); }
                (user_select(settings))
                @for shortcut in offered {
                    button name="callback_id" value=(shortcut.callback_id) { (shortcut.name) }
                }
            }
        }
    }
}

fn user_select(settings: &FakeSlackSettings) -> Markup {
    html! {
        label { "as " select name="user" {
            @for user in &settings.users { option value=(user.id) { (user.name) } }
        } }
    }
}

fn message_view(message: &FakeMessage, settings: &FakeSlackSettings) -> Markup {
    let blocks = message.blocks.as_array().map(Vec::as_slice).unwrap_or_default();
    html! {
        article.under[message.thread.is_some()] {
            small { (message.place()) @if message.edits > 0 { " (edited)" } }
            @if blocks.is_empty() { p { (message.text) } }
            @for block in blocks { (block_view(block, message, settings)) }
            (shortcuts(settings, Some(message)))
        }
    }
}

fn block_view(block: &Value, message: &FakeMessage, settings: &FakeSlackSettings) -> Markup {
    match block["type"].as_str() {
        Some("header") => html! { h3 { (rendered(&block["text"])) } },
        Some("divider") => html! { hr; },
        Some("actions") => buttons(block, message, settings),
        _ => html! {
            @if let Some(text) = block.get("text") { p { (rendered(text)) } }
            @for part in ["fields", "elements"] {
                @for text in block[part].as_array().into_iter().flatten() { p { (rendered(text)) } }
            }
        },
    }
}

fn buttons(block: &Value, message: &FakeMessage, settings: &FakeSlackSettings) -> Markup {
    let elements = block["elements"].as_array().map(Vec::as_slice).unwrap_or_default();
    html! {
        form method="post" action="/pane/press" {
            input type="hidden" name="place" value=(message.place());
            (user_select(settings))
            @for button in elements {
                button name="action_id" value=[button["action_id"].as_str()] class=[button["style"].as_str()] {
                    (rendered(&button["text"]))
                }
            }
        }
    }
}

fn modal_view(view: &View) -> Markup {
    let blocks = view.view["blocks"].as_array().map(Vec::as_slice).unwrap_or_default();
    html! {
        dialog open {
            h3 { (rendered(&view.view["title"])) " (" (view.user) ")" }
            @for block in blocks { p { (rendered(&block["text"])) (rendered(&block["label"])) } }
            form method="post" action="/pane/submit" {
                input type="hidden" name="view" value=(view.id);
                input type="hidden" name="user" value=(view.user);
                @for block in blocks.iter().filter(|block| block["type"] == "input") { (entry(block)) }
                @if view.view.get("submit").is_some() { button { (rendered(&view.view["submit"])) } }
            }
        }
    }
}

/// A text field or a select.
fn entry(block: &Value) -> Markup {
    let element = &block["element"];
    html! {
        @if element["type"] == "static_select" {
            select name="choice" {
                @for option in element["options"].as_array().into_iter().flatten() {
                    option value=[option["value"].as_str()] { (rendered(&option["text"])) }
                }
            }
        } @else {
            textarea name="text" required[block["optional"] != true] {
                (element["initial_value"].as_str().unwrap_or_default())
            }
        }
    }
}

/// A text as Slack renders it: unescaped, with the fallback text of dates.
fn rendered(text: &Value) -> String {
    let mut shown = String::new();
    let mut rest = text["text"].as_str().unwrap_or_default();
    while let Some((before, date)) = rest.split_once("<!date^") {
        let (date, after) = date.split_once('>').unwrap_or((date, ""));
        shown.push_str(before);
        shown.push_str(date.rsplit_once('|').map_or(date, |(_, fallback)| fallback));
        rest = after;
    }
    shown.push_str(rest);
    shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

pub(super) async fn press(Extracted(state): Extracted<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    send(&state, &headers, &body, |state, form| {
        let team = state.settings.team.clone();
        let [place, action_id, user] = ["place", "action_id", "user"].map(|name| field(form, name));
        state.press(&ButtonPress { place, action_id, user, team: &team, at_secs: now_secs() })
    })
    .await
}

pub(super) async fn submit(Extracted(state): Extracted<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    send(&state, &headers, &body, |state, form| {
        let team = state.settings.team.clone();
        let [view, user, text] = ["view", "user", "text"].map(|name| field(form, name));
        let choice = form.get("choice").map(String::as_str);
        state.submit(&Submission { view, user, team: &team, text, choice, at_secs: now_secs() })
    })
    .await
}

pub(super) async fn shortcut(
    Extracted(state): Extracted<Shared>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    send(&state, &headers, &body, |state, form| {
        let team = state.settings.team.clone();
        let [callback_id, user] = ["callback_id", "user"].map(|name| field(form, name));
        let place = form.get("place").map(String::as_str);
        state.use_shortcut(&ShortcutUse { callback_id, place, user, team: &team, at_secs: now_secs() })
    })
    .await
}

type Form = BTreeMap<String, String>;

fn field<'a>(form: &'a Form, name: &str) -> &'a str {
    form.get(name).map_or("", String::as_str)
}

async fn send(
    state: &Shared,
    headers: &HeaderMap,
    body: &[u8],
    make: impl FnOnce(&mut State, &Form) -> Option<Callback>,
) -> Response {
    if is_cross_origin(headers) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let form = url::form_urlencoded::parse(body).into_owned().collect();
    let (callback, url, replies) = {
        let mut state = state.lock();
        (make(&mut state, &form), state.settings.callback.clone(), state.answers.len())
    };
    let note = match (callback, url) {
        (None, _) => "The button no longer exists.".to_owned(),
        (Some(_), None) => "No callback URL is set.".to_owned(),
        (Some(callback), Some(url)) => match deliver(callback, &url).await {
            Ok(status) => format!("Callback sent; status {status}."),
            Err(error) => error.to_string(),
        },
    };
    let mut state = state.lock();
    // The app's private reply to the user.
    let answer = state.answers.get(replies).map(|answer| format!(" Private reply: {}", rendered(answer)));
    state.note = Some(note + &answer.unwrap_or_default());
    drop(state);
    Redirect::to("/").into_response()
}

/// Whether the browser reports another origin, or a host name that is not this machine's (DNS rebinding).
fn is_cross_origin(headers: &HeaderMap) -> bool {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let here = matches!(name, "127.0.0.1" | "localhost" | "[::1]");
    !here || text(header::ORIGIN).is_some_and(|origin| origin != format!("http://{host}"))
}

fn now_secs() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    i64::try_from(since).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use serde_json::json;

    #[test]
    fn only_the_local_page_may_press() {
        let elsewhere = |host, origin| {
            let headers = [(header::HOST, host), (header::ORIGIN, origin)];
            let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
            is_cross_origin(&HeaderMap::from_iter(headers))
        };
        assert!(!elsewhere("127.0.0.1:8080", "http://127.0.0.1:8080"));
        assert!(!elsewhere("localhost:8080", "http://localhost:8080"));
        assert!(elsewhere("127.0.0.1:8080", "http://127.0.0.1:9090"));
        assert!(elsewhere("evil.example:8080", "http://evil.example:8080"));
    }

    #[test]
    fn text_is_unescaped_and_dates_use_their_fallback() {
        let text = json!({ "text": "a &lt;b&gt; &amp;lt; due <!date^1^{time}|noon UTC>." });
        assert_eq!(rendered(&text), "a <b> &lt; due noon UTC.");
    }
}
