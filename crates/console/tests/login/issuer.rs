//! A fake identity provider. It issues a code for every authorization request, and one token for each code with a valid
//! verifier.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD as BASE64};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use url::Url;

/// Test keys: no library in the workspace generates RSA keys.
const RSA: &[u8] = include_bytes!("../../../../tests/contract/tests/contract/keys/rsa.der");
const OTHER: &[u8] = include_bytes!("../../../../tests/contract/tests/contract/keys/other.der");
const MODULUS: &str = include_str!("../../../../tests/contract/tests/contract/keys/rsa.modulus");

pub(crate) const CLIENT: &str = "countersign console";
pub(crate) const SECRET: &str = "a secret: with & and =";

/// How the issuer signs tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Rs256,
    Es256,
    /// With another key than `kid` names.
    Other,
    Unsigned,
    /// With the public key as the secret.
    Hs256,
}

/// How the issuer responds.
#[derive(Clone)]
pub(crate) struct Behavior {
    pub(crate) kind: Kind,
    /// Claims that replace the default ones.
    pub(crate) instead: Value,
    /// An error and its description instead of a code.
    pub(crate) error: Option<(String, String)>,
}

impl Default for Behavior {
    fn default() -> Self {
        Self { kind: Kind::Rs256, instead: json!({}), error: None }
    }
}

pub(crate) struct Issuer {
    pub(crate) url: String,
    pub(crate) behavior: Mutex<Behavior>,
    /// The number of tokens issued.
    pub(crate) tokens: Mutex<u32>,
    redirect_uri: String,
    ec: Vec<u8>,
    point: Vec<u8>,
    granted: Mutex<BTreeMap<String, Grant>>,
}

struct Grant {
    challenge: String,
    nonce: String,
}

type Params = BTreeMap<String, String>;

impl Issuer {
    /// Starts an issuer under the name `host` that redirects to `redirect_uri`.
    pub(crate) async fn start(host: &str, redirect_uri: String) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let random = SystemRandom::new();
        let ec = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, ec.as_ref(), &random).unwrap();
        let issuer = Arc::new(Self {
            url: format!("http://{host}:{}", listener.local_addr().unwrap().port()),
            behavior: Mutex::default(),
            tokens: Mutex::default(),
            redirect_uri,
            ec: ec.as_ref().to_vec(),
            point: pair.public_key().as_ref().to_vec(),
            granted: Mutex::default(),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(describe))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/keys", get(keys))
            .with_state(Arc::clone(&issuer));
        tokio::spawn(async move { axum::serve(listener, router).await });
        issuer
    }

    pub(crate) fn behave(&self, behavior: Behavior) {
        *self.behavior.lock().unwrap() = behavior;
    }

    pub(crate) fn tokens(&self) -> u32 {
        *self.tokens.lock().unwrap()
    }

    fn claims(&self, nonce: &str) -> Value {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({
            "iss": self.url,
            "aud": CLIENT,
            "sub": "user|1",
            "exp": now + 3_600,
            "iat": now,
            "nonce": nonce,
            "org": "acme",
            "name": "grace",
            "roles": ["viewer", "approver", "of-something-else"],
        });
        let instead = self.behavior.lock().unwrap().instead.clone();
        claims.as_object_mut().unwrap().extend(instead.as_object().unwrap().clone());
        claims
    }

    fn signed(&self, claims: &Value) -> String {
        let encode = |algorithm, kid: &str, key: &EncodingKey| {
            let header = Header { kid: Some(kid.to_owned()), ..Header::new(algorithm) };
            jsonwebtoken::encode(&header, claims, key).unwrap()
        };
        match self.behavior.lock().unwrap().kind {
            Kind::Rs256 => encode(Algorithm::RS256, "rsa", &EncodingKey::from_rsa_der(RSA)),
            Kind::Es256 => encode(Algorithm::ES256, "ec", &EncodingKey::from_ec_der(&self.ec)),
            Kind::Other => encode(Algorithm::RS256, "rsa", &EncodingKey::from_rsa_der(OTHER)),
            Kind::Hs256 => {
                encode(Algorithm::HS256, "rsa", &EncodingKey::from_secret(MODULUS.trim().as_bytes()))
            }
            Kind::Unsigned => {
                let header = BASE64.encode(json!({ "alg": "none", "kid": "rsa" }).to_string());
                format!("{header}.{}.", BASE64.encode(claims.to_string()))
            }
        }
    }
}

type IssuerState = State<Arc<Issuer>>;

async fn describe(State(issuer): IssuerState) -> Json<Value> {
    let url = &issuer.url;
    Json(json!({
        "issuer": url,
        "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"),
        "jwks_uri": format!("{url}/keys"),
    }))
}

async fn keys(State(issuer): IssuerState) -> Json<Value> {
    let (x, y) = (BASE64.encode(&issuer.point[1..33]), BASE64.encode(&issuer.point[33..]));
    Json(json!({ "keys": [
        { "kty": "RSA", "use": "sig", "kid": "rsa", "alg": "RS256", "n": MODULUS.trim(), "e": "AQAB" },
        { "kty": "EC", "use": "sig", "kid": "ec", "crv": "P-256", "x": x, "y": y },
    ] }))
}

/// Every user is already logged in.
async fn authorize(State(issuer): IssuerState, Query(params): Query<Params>) -> Response {
    let param = |name: &str| params.get(name).map_or("", String::as_str);
    let valid = param("response_type") == "code"
        && param("client_id") == CLIENT
        && param("redirect_uri") == issuer.redirect_uri
        && param("code_challenge_method") == "S256"
        && param("scope").split(' ').any(|scope| scope == "openid");
    if !valid {
        return (StatusCode::BAD_REQUEST, format!("{params:?}")).into_response();
    }
    let mut to: Url = issuer.redirect_uri.parse().unwrap();
    to.query_pairs_mut().append_pair("state", param("state")).append_pair("iss", &issuer.url);
    if let Some((error, description)) = &issuer.behavior.lock().unwrap().error {
        to.query_pairs_mut().append_pair("error", error).append_pair("error_description", description);
        return Redirect::to(to.as_str()).into_response();
    }
    let mut granted = issuer.granted.lock().unwrap();
    let code = format!("code-{}-{}", granted.len(), param("code_challenge"));
    to.query_pairs_mut().append_pair("code", &code);
    let (challenge, nonce) = (param("code_challenge").to_owned(), param("nonce").to_owned());
    granted.insert(code, Grant { challenge, nonce });
    Redirect::to(to.as_str()).into_response()
}

async fn token(State(issuer): IssuerState, headers: HeaderMap, Form(params): Form<Params>) -> Response {
    let param = |name: &str| params.get(name).map_or("", String::as_str);
    let refuse = |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    if headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap()) != Some(&basic()) {
        return refuse("invalid_client");
    }
    // A code can be used once, even if the request fails.
    let Some(granted) = issuer.granted.lock().unwrap().remove(param("code")) else {
        return refuse("invalid_grant");
    };
    let verified = BASE64.encode(Sha256::digest(param("code_verifier"))) == granted.challenge;
    if !verified
        || param("grant_type") != "authorization_code"
        || param("redirect_uri") != issuer.redirect_uri
    {
        return refuse("invalid_grant");
    }
    *issuer.tokens.lock().unwrap() += 1;
    let token = issuer.signed(&issuer.claims(&granted.nonce));
    Json(json!({ "access_token": "unused", "token_type": "Bearer", "id_token": token })).into_response()
}

fn basic() -> String {
    let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", encoded(CLIENT), encoded(SECRET))))
}
