//! Parameters by which frameworks replace the method of a request.
//!
//! Rails, Laravel, Symfony and `WordPress` read `_method`, Salesforce `_HttpMethod`, Facebook `method`, and others a
//! parameter with the name of the header `X-HTTP-Method-Override`. `WordPress` does so for a GET too. The effect class and
//! the policy decide by `method`, so such a parameter is refused; the headers are refused in `headers`.

use domain::Failure;
use reqwest::Method;
use serde_json::Value;
use url::form_urlencoded;

use crate::fields::invalid;

use super::request::Request;

/// The names, as lower-case letters, that mean nothing else.
const OVERRIDES: &[&str] =
    &["methodoverride", "xmethodoverride", "httpmethodoverride", "xhttpmethodoverride", "xhttpmethod"];

/// Names with another common meaning, such as the method of a remote procedure. In a query or a form they override the
/// method if the value is a method.
const AMBIGUOUS: &[&str] = &["method", "httpmethod"];

const METHODS: &[&str] =
    &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "MERGE", "PURGE"];

/// Refuses a request whose query or body can replace its method.
pub(super) fn check(request: &Request) -> Result<(), Failure> {
    let query = request.url.query().unwrap_or_default();
    if let Some(name) = in_form(query, &request.method) {
        return Err(refused(&name, "`url`"));
    }
    match in_body(request) {
        Some(name) => Err(refused(&name, "`body`")),
        None => Ok(()),
    }
}

fn refused(name: &str, part: &str) -> Failure {
    let name: String = name.chars().take(40).collect();
    invalid(format!(
        "the parameter {name:?} in {part} can replace the method of the request; remove it, and set `method` to the method \
         that the endpoint must execute"
    ))
}

fn in_body(request: &Request) -> Option<String> {
    let body = request.body.as_ref()?;
    let content_type = request.headers.get("content-type").map(|text| text.to_ascii_lowercase());
    match (body, content_type) {
        (Value::Object(fields), _) => fields.keys().find(|name| is_marked(name)).cloned(),
        (Value::String(text), Some(kind)) if kind.contains("form-urlencoded") => {
            in_form(text, &request.method)
        }
        (Value::String(text), Some(kind)) if kind.contains("multipart/") => in_multipart(text),
        _ => None,
    }
}

/// The first parameter of a query or a form that can replace `method`.
fn in_form(form: &str, method: &Method) -> Option<String> {
    // Some servers separate parameters with semicolons, and some decode `%u005f`.
    let form = form.replace(';', "&").replace("%u00", "%").replace("%U00", "%");
    let mut pairs = form_urlencoded::parse(form.as_bytes());
    pairs.find(|(name, value)| overrides(name, value, method)).map(|(name, _)| name.into_owned())
}

/// The first part of a multipart body that can replace the method.
fn in_multipart(text: &str) -> Option<String> {
    let mut names = text.split("name=").skip(1).map(|rest| match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => rest.split([';', '\r', '\n']).next().unwrap_or_default(),
    });
    names.find(|name| is_marked(name)).map(str::to_owned)
}

fn overrides(name: &str, value: &str, method: &Method) -> bool {
    let is_other = |known: &&str| value.trim().eq_ignore_ascii_case(known) && *known != method.as_str();
    is_marked(name) || AMBIGUOUS.contains(&letters(name).as_str()) && METHODS.iter().any(is_other)
}

/// Whether the name means nothing but another method, in any spelling: `_method`, or the name of a header.
fn is_marked(name: &str) -> bool {
    let letters = letters(name);
    let has_mark = !name_of(name).bytes().all(|byte| byte.is_ascii_alphabetic());
    OVERRIDES.contains(&letters.as_str()) || has_mark && letters == "method"
}

/// PHP ends a name at a NUL, reads `_method[]` as an array, and reads blanks, dots and a leading bracket as underscores.
fn name_of(name: &str) -> &str {
    let name = name.split('\0').next().unwrap_or_default();
    let leading = name.len() - name.trim_start_matches('[').len();
    let end = name[leading..].find('[').map_or(name.len(), |at| leading + at);
    &name[..end]
}

fn letters(name: &str) -> String {
    let letters = name_of(name).chars().filter(char::is_ascii_alphabetic);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::request;
    use super::*;
    use crate::fields::Fields;

    fn parse(with: Value) -> Result<Request, String> {
        let mut fields = Fields::parse(with, request::FIELDS).unwrap();
        Request::take(&mut fields).map_err(|failure| failure.message)
    }

    #[test]
    fn method_override_in_the_query_is_refused() {
        for query in [
            "_method=DELETE",
            "rest_route=/wp/v2/posts/1&_method=DELETE",
            "_METHOD=delete",
            "%5Fmethod=DELETE",
            "%5f%6d%65%74%68%6f%64=DELETE",
            "%u005fmethod=DELETE",
            "+_method=DELETE",
            ".method=DELETE",
            "[method=DELETE",
            "_method[]=DELETE",
            "_method%5B%5D=DELETE",
            "_method%00x=DELETE",
            "a=1;_method=DELETE",
            "_method",
            "_HttpMethod=PATCH",
            "http_method=DELETE",
            "X-HTTP-Method-Override=PUT",
            "x_http_method=PUT",
            "X-Method-Override=PUT",
            "method=delete",
            "httpMethod=+DELETE",
        ] {
            for method in ["GET", "HEAD", "POST", "PUT"] {
                let url = format!("https://site.example/wp-json/a?{query}");
                let error = parse(json!({"method": method, "url": url})).unwrap_err();
                assert!(error.contains("in `url` can replace the method"), "{method} {query}: {error}");
            }
        }
    }

    #[test]
    fn method_override_in_the_body_is_refused() {
        let part = "--b\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE\r\n--b--\r\n";
        for (content_type, body) in [
            ("application/x-www-form-urlencoded", json!("a=1&_method=DELETE")),
            ("application/x-www-form-urlencoded; charset=utf-8", json!("method=delete")),
            ("multipart/form-data; boundary=b", json!(part)),
            ("multipart/form-data; boundary=b", json!(part.replace('"', ""))),
            ("application/json", json!({"_method": "DELETE"})),
            ("application/json", json!({"X-HTTP-Method-Override": "DELETE"})),
        ] {
            let with = json!({
                "method": "POST", "url": "https://a.example/", "headers": {"content-type": content_type}, "body": body,
            });
            let error = parse(with).unwrap_err();
            assert!(error.contains("in `body` can replace the method"), "{body}: {error}");
        }
    }

    #[test]
    fn other_parameters_are_allowed() {
        for query in [
            "method=flickr.photos.getInfo",
            "payment_method=card",
            "methods=DELETE",
            "q=_method%3DDELETE",
            "method=get",
        ] {
            let parsed = parse(json!({"url": format!("https://a.example/?{query}")}));
            assert!(parsed.is_ok(), "{query}: {parsed:?}");
        }
        for body in
            [json!({"method": "tools/call", "id": 1}), json!({"http_method": "DELETE"}), json!(["_method"])]
        {
            let parsed = parse(json!({"method": "POST", "url": "https://a.example/", "body": body}));
            assert!(parsed.is_ok(), "{body}: {parsed:?}");
        }
    }
}
