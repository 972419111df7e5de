//! A minimal browser for logins: it stores cookies by host and follows redirects.

use std::collections::BTreeMap;
use std::sync::Mutex;

use axum::http::{HeaderMap, StatusCode, header};
use url::Url;

/// A login has fewer redirects.
const STEPS_MAX: usize = 8;

pub(crate) struct Browser {
    client: reqwest::Client,
    /// By host and name.
    cookies: Mutex<BTreeMap<(String, String), String>>,
}

pub(crate) struct Page {
    pub(crate) url: Url,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Page {
    /// The `Set-Cookie` headers.
    pub(crate) fn set_cookies(&self) -> Vec<&str> {
        self.headers.get_all(header::SET_COOKIE).iter().map(|value| value.to_str().unwrap()).collect()
    }

    /// The target of a redirect or refresh.
    fn redirect(&self) -> Option<Url> {
        let location = self.headers.get(header::LOCATION).map(|to| to.to_str().unwrap().to_owned());
        let refresh = || Some(self.body.split_once("content=\"0;url=")?.1.split('"').next()?.to_owned());
        Some(self.url.join(&location.or_else(refresh)?.replace("&amp;", "&")).unwrap())
    }

    /// The token that forms on the page must send.
    pub(crate) fn token(&self) -> String {
        let (_, rest) = self.body.split_once("name=\"token\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

impl Browser {
    pub(crate) fn new() -> Self {
        let client = http_client::client().build().unwrap();
        Self { client, cookies: Mutex::default() }
    }

    /// One page, without following redirects.
    pub(crate) async fn get(&self, url: impl AsRef<str>) -> Page {
        let url: Url = url.as_ref().parse().unwrap();
        self.send(self.client.get(url.clone()), url).await
    }

    /// Sends a form.
    pub(crate) async fn post(&self, url: &str, form: &str) -> Page {
        let url: Url = url.parse().unwrap();
        let request = self.client.post(url.clone()).body(form.to_owned());
        let kind = "application/x-www-form-urlencoded";
        self.send(request.header(header::CONTENT_TYPE, kind), url).await
    }

    /// Follows redirects to the last page.
    pub(crate) async fn go(&self, url: impl AsRef<str>) -> Page {
        let mut page = self.get(url).await;
        for _ in 0..STEPS_MAX {
            let Some(to) = page.redirect() else { return page };
            page = self.get(to).await;
        }
        panic!("too many redirects at {}", page.url);
    }

    /// Follows redirects until the next address contains `part`, and returns that address without opening it.
    pub(crate) async fn go_until(&self, url: impl AsRef<str>, part: &str) -> String {
        let mut page = self.get(url).await;
        for _ in 0..STEPS_MAX {
            let to = page.redirect().unwrap();
            if to.as_str().contains(part) {
                return to.into();
            }
            page = self.get(to).await;
        }
        panic!("too many redirects at {}", page.url);
    }

    /// The cookie of this name, for any host.
    pub(crate) fn cookie(&self, named: &str) -> Option<String> {
        let cookies = self.cookies.lock().unwrap();
        cookies.iter().find(|((_, name), _)| name == named).map(|(_, value)| value.clone())
    }

    /// Sets a cookie.
    pub(crate) fn put(&self, url: &str, name: &str, value: &str) {
        let host = Url::parse(url).unwrap().authority().to_owned();
        self.cookies.lock().unwrap().insert((host, name.to_owned()), value.to_owned());
    }

    async fn send(&self, request: reqwest::RequestBuilder, url: Url) -> Page {
        let host = url.authority().to_owned();
        let sent: Vec<String> = {
            let cookies = self.cookies.lock().unwrap();
            let ours = cookies.iter().filter(|((of, _), _)| *of == host);
            ours.map(|((_, name), value)| format!("{name}={value}")).collect()
        };
        let response = request.header(header::COOKIE, sent.join("; ")).send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let page = Page { url, status, headers, body: response.text().await.unwrap() };
        for given in page.set_cookies() {
            let (pair, attributes) = given.split_once(';').unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            let key = (host.clone(), name.to_owned());
            let mut cookies = self.cookies.lock().unwrap();
            if attributes.contains("Max-Age=0;") {
                cookies.remove(&key);
            } else {
                cookies.insert(key, value.to_owned());
            }
        }
        page
    }
}
