//! An identity provider: it grants a code to whoever comes, for one token, to whoever proves that they asked for it.

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

/// No library that we use makes RSA keys; these are for tests alone.
const RSA: &[u8] = include_bytes!("../../../../tests/contract/tests/contract/keys/rsa.der");
const OTHER: &[u8] = include_bytes!("../../../../tests/contract/tests/contract/keys/other.der");
const MODULUS: &str = include_str!("../../../../tests/contract/tests/contract/keys/rsa.modulus");

pub(crate) const CLIENT: &str = "countersign console";
pub(crate) const SECRET: &str = "a secret: with & and =";

/// How a token is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Rs256,
    Es256,
    /// With another key than it says.
    Other,
    /// Not at all.
    Unsigned,
    /// With what everybody knows.
    Hs256,
}

/// What it does with whoever comes.
#[derive(Clone)]
pub(crate) struct Manner {
    pub(crate) kind: Kind,
    /// What takes the place of what it would say.
    pub(crate) instead: Value,
    /// What it says instead of a code.
    pub(crate) refuses: Option<(String, String)>,
}

impl Default for Manner {
    fn default() -> Self {
        Self { kind: Kind::Rs256, instead: json!({}), refuses: None }
    }
}

pub(crate) struct Issuer {
    pub(crate) url: String,
    pub(crate) manner: Mutex<Manner>,
    /// How many tokens it has given out.
    pub(crate) tokens: Mutex<u32>,
    back: String,
    ec: Vec<u8>,
    point: Vec<u8>,
    granted: Mutex<BTreeMap<String, Granted>>,
}

struct Granted {
    challenge: String,
    nonce: String,
}

type Asked = BTreeMap<String, String>;

impl Issuer {
    /// An issuer that is called `host`, which is this machine, and leads people back to `back`.
    pub(crate) async fn start(host: &str, back: String) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let random = SystemRandom::new();
        let ec = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, ec.as_ref(), &random).unwrap();
        let issuer = Arc::new(Self {
            url: format!("http://{host}:{}", listener.local_addr().unwrap().port()),
            manner: Mutex::default(),
            tokens: Mutex::default(),
            back,
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

    pub(crate) fn behave(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
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
        let instead = self.manner.lock().unwrap().instead.clone();
        claims.as_object_mut().unwrap().extend(instead.as_object().unwrap().clone());
        claims
    }

    fn signed(&self, claims: &Value) -> String {
        let encode = |algorithm, kid: &str, key: &EncodingKey| {
            let header = Header { kid: Some(kid.to_owned()), ..Header::new(algorithm) };
            jsonwebtoken::encode(&header, claims, key).unwrap()
        };
        match self.manner.lock().unwrap().kind {
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

type At = State<Arc<Issuer>>;

async fn describe(State(issuer): At) -> Json<Value> {
    let url = &issuer.url;
    Json(json!({
        "issuer": url,
        "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"),
        "jwks_uri": format!("{url}/keys"),
    }))
}

async fn keys(State(issuer): At) -> Json<Value> {
    let (x, y) = (BASE64.encode(&issuer.point[1..33]), BASE64.encode(&issuer.point[33..]));
    Json(json!({ "keys": [
        { "kty": "RSA", "use": "sig", "kid": "rsa", "alg": "RS256", "n": MODULUS.trim(), "e": "AQAB" },
        { "kty": "EC", "use": "sig", "kid": "ec", "crv": "P-256", "x": x, "y": y },
    ] }))
}

/// Everybody is logged in here already.
async fn authorize(State(issuer): At, Query(asked): Query<Asked>) -> Response {
    let said = |name: &str| asked.get(name).map_or("", String::as_str);
    let right = said("response_type") == "code"
        && said("client_id") == CLIENT
        && said("redirect_uri") == issuer.back
        && said("code_challenge_method") == "S256"
        && said("scope").split(' ').any(|scope| scope == "openid");
    if !right {
        return (StatusCode::BAD_REQUEST, format!("{asked:?}")).into_response();
    }
    let mut to: Url = issuer.back.parse().unwrap();
    to.query_pairs_mut().append_pair("state", said("state")).append_pair("iss", &issuer.url);
    if let Some((error, description)) = &issuer.manner.lock().unwrap().refuses {
        to.query_pairs_mut().append_pair("error", error).append_pair("error_description", description);
        return Redirect::to(to.as_str()).into_response();
    }
    let mut granted = issuer.granted.lock().unwrap();
    let code = format!("code-{}-{}", granted.len(), said("code_challenge"));
    to.query_pairs_mut().append_pair("code", &code);
    let (challenge, nonce) = (said("code_challenge").to_owned(), said("nonce").to_owned());
    granted.insert(code, Granted { challenge, nonce });
    Redirect::to(to.as_str()).into_response()
}

async fn token(State(issuer): At, headers: HeaderMap, Form(asked): Form<Asked>) -> Response {
    let said = |name: &str| asked.get(name).map_or("", String::as_str);
    let no = |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    if headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap()) != Some(&basic()) {
        return no("invalid_client");
    }
    // Whatever comes of it, a code is used up.
    let Some(granted) = issuer.granted.lock().unwrap().remove(said("code")) else {
        return no("invalid_grant");
    };
    let proved = BASE64.encode(Sha256::digest(said("code_verifier"))) == granted.challenge;
    if !proved || said("grant_type") != "authorization_code" || said("redirect_uri") != issuer.back {
        return no("invalid_grant");
    }
    *issuer.tokens.lock().unwrap() += 1;
    let token = issuer.signed(&issuer.claims(&granted.nonce));
    Json(json!({ "access_token": "of no use here", "token_type": "Bearer", "id_token": token }))
        .into_response()
}

fn basic() -> String {
    let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    format!("Basic {}", BASE64_STANDARD.encode(format!("{}:{}", encoded(CLIENT), encoded(SECRET))))
}
