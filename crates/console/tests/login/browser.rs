//! As much of a browser as a login needs: it keeps cookies, by host, and goes where it is led.

use std::collections::BTreeMap;
use std::sync::Mutex;

use axum::http::{HeaderMap, StatusCode, header};
use url::Url;

/// A login is a handful of steps.
const STEPS_MAX: usize = 8;

pub(crate) struct Browser {
    client: reqwest::Client,
    /// By host and name.
    cookies: Mutex<BTreeMap<(String, String), String>>,
}

/// What it shows.
pub(crate) struct Page {
    pub(crate) url: Url,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Page {
    /// The cookies that it brought, as they were given.
    pub(crate) fn given(&self) -> Vec<&str> {
        self.headers.get_all(header::SET_COOKIE).iter().map(|value| value.to_str().unwrap()).collect()
    }

    /// Where it leads without anybody pressing anything.
    fn leads(&self) -> Option<Url> {
        let location = self.headers.get(header::LOCATION).map(|to| to.to_str().unwrap().to_owned());
        let refresh = || Some(self.body.split_once("content=\"0;url=")?.1.split('"').next()?.to_owned());
        Some(self.url.join(&location.or_else(refresh)?.replace("&amp;", "&")).unwrap())
    }

    /// What a form on the page must bring.
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

    /// One page, whatever it leads to.
    pub(crate) async fn get(&self, url: impl AsRef<str>) -> Page {
        let url: Url = url.as_ref().parse().unwrap();
        self.send(self.client.get(url.clone()), url).await
    }

    /// A form that a page of the same server sends.
    pub(crate) async fn post(&self, url: &str, form: &str) -> Page {
        let url: Url = url.parse().unwrap();
        let request = self.client.post(url.clone()).body(form.to_owned());
        let kind = "application/x-www-form-urlencoded";
        self.send(request.header(header::CONTENT_TYPE, kind), url).await
    }

    /// The page that it comes to rest at.
    pub(crate) async fn go(&self, url: impl AsRef<str>) -> Page {
        let mut page = self.get(url).await;
        for _ in 0..STEPS_MAX {
            let Some(to) = page.leads() else { return page };
            page = self.get(to).await;
        }
        panic!("it is led in circles at {}", page.url);
    }

    /// Goes where it is led until an address that holds `part` is next, and gives that back unopened.
    pub(crate) async fn go_until(&self, url: impl AsRef<str>, part: &str) -> String {
        let mut page = self.get(url).await;
        for _ in 0..STEPS_MAX {
            let to = page.leads().unwrap();
            if to.as_str().contains(part) {
                return to.into();
            }
            page = self.get(to).await;
        }
        panic!("it is led in circles at {}", page.url);
    }

    /// The cookie of this name, for any host.
    pub(crate) fn cookie(&self, named: &str) -> Option<String> {
        let cookies = self.cookies.lock().unwrap();
        cookies.iter().find(|((_, name), _)| name == named).map(|(_, value)| value.clone())
    }

    /// Puts a cookie back that was there before.
    pub(crate) fn put(&self, url: &str, name: &str, value: &str) {
        let host = Url::parse(url).unwrap().authority().to_owned();
        self.cookies.lock().unwrap().insert((host, name.to_owned()), value.to_owned());
    }

    async fn send(&self, request: reqwest::RequestBuilder, url: Url) -> Page {
        let host = url.authority().to_owned();
        let kept: Vec<String> = {
            let cookies = self.cookies.lock().unwrap();
            let ours = cookies.iter().filter(|((of, _), _)| *of == host);
            ours.map(|((_, name), value)| format!("{name}={value}")).collect()
        };
        let answer = request.header(header::COOKIE, kept.join("; ")).send().await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        let page = Page { url, status, headers, body: answer.text().await.unwrap() };
        for given in page.given() {
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
