//! Tokens of an identity provider, which is played by a server on this machine. The keys beside this file are for
//! these tests alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use api::auth::{Oidc, OidcSettings, Signed};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use countersign_contract::{House, Reply};
use domain::Millis;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use store::{Clock as _, SystemClock};
use tokio::net::TcpListener;

const RSA: &[u8] = include_bytes!("keys/rsa.der");
const OTHER: &[u8] = include_bytes!("keys/other.der");
const EC: &[u8] = include_bytes!("keys/ec.der");
const MODULUS: &str = include_str!("keys/rsa.modulus");
const POINT: &str = include_str!("keys/ec.point");

/// An identity provider.
#[derive(Default)]
struct Provider {
    down: AtomicBool,
    asked: AtomicU32,
}

impl Provider {
    fn keys() -> Value {
        let (x, y) = POINT.trim().split_once(' ').unwrap();
        json!({ "keys": [
            { "kty": "RSA", "use": "sig", "kid": "rsa", "alg": "RS256", "n": MODULUS.trim(), "e": "AQAB" },
            { "kty": "EC", "use": "sig", "kid": "ec", "crv": "P-256", "x": x, "y": y },
            { "kty": "from-the-future", "kid": "odd" },
        ] })
    }

    #[expect(clippy::unused_async, reason = "a handler is async")]
    async fn serve(State(provider): State<Arc<Self>>) -> Result<Json<Value>, StatusCode> {
        provider.asked.fetch_add(1, Ordering::SeqCst);
        if provider.down.load(Ordering::SeqCst) {
            return Err(StatusCode::BAD_GATEWAY);
        }
        Ok(Json(Self::keys()))
    }
}

/// A house that believes a provider.
struct Scene {
    house: House,
    provider: Arc<Provider>,
}

impl Scene {
    async fn new() -> Self {
        Self::with(vec![Signed::Rs256, Signed::Es256]).await
    }

    async fn with(signed: Vec<Signed>) -> Self {
        let provider = Arc::new(Provider::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/keys", get(Provider::serve)).with_state(Arc::clone(&provider));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let settings = OidcSettings {
            issuer: "https://id.example.com".to_owned(),
            audience: "countersign".to_owned(),
            key_set: Some(format!("http://{address}/keys").parse().unwrap()),
            signed,
            tenant_claim: "org".to_owned(),
            person_claim: "name".to_owned(),
            roles_claim: "roles".to_owned(),
        };
        let oidc = Oidc::new(settings).unwrap();
        Self { house: House::with(|gate| gate.believing(oidc)).await, provider }
    }

    async fn me(&self, token: &str) -> Reply {
        self.house.get(token, "/me").await
    }

    /// The token is refused in the very words for a key that opens nothing.
    async fn refuses(&self, token: &str, why: &str) {
        let nothing = self.house.get("csk_acme_dead_00", "/me").await;
        assert_eq!(nothing.status, 401);
        assert_eq!(self.me(token).await, nothing, "{why}");
    }

    fn asked(&self) -> u32 {
        self.provider.asked.load(Ordering::SeqCst)
    }
}

fn seconds() -> i64 {
    SystemClock.now().0 / 1000
}

fn claims() -> Value {
    json!({
        "iss": "https://id.example.com",
        "aud": ["countersign", "others"],
        "sub": "user|1",
        "exp": seconds() + 600,
        "org": "acme",
        "name": "grace",
        "roles": ["viewer", "something-else"],
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

fn signed(algorithm: Algorithm, kid: &str, key: &EncodingKey, claims: &Value) -> String {
    let header = Header { kid: Some(kid.to_owned()), ..Header::new(algorithm) };
    jsonwebtoken::encode(&header, claims, key).unwrap()
}

fn rs256(claims: &Value) -> String {
    signed(Algorithm::RS256, "rsa", &EncodingKey::from_rsa_der(RSA), claims)
}

#[tokio::test]
async fn a_token_opens_what_its_roles_open_in_the_tenant_that_it_names() {
    let scene = Scene::new().await;
    let es256 = signed(Algorithm::ES256, "ec", &EncodingKey::from_ec_der(EC), &claims());
    for token in [rs256(&claims()), es256] {
        let me = scene.me(&token).await;
        assert_eq!(me.status, 200, "{}", me.text());
        let me = me.json();
        assert_eq!((&me["tenant"], &me["person"]), (&json!("acme"), &json!("grace")));
        assert_eq!(me["roles"], json!(["viewer"]));
        let start = scene.house.post(&token, "/runs", &json!({ "workflow": "plain" })).await;
        assert_eq!(start.told(), (403, "FORBIDDEN".to_owned()));
        let other = format!("/runs/{}", scene.house.umbrella.runs.finished);
        assert_eq!(scene.house.get(&token, &other).await.told(), (404, "NOT_FOUND".to_owned()));
    }
    assert_eq!(scene.asked(), 1, "the keys are kept");
    let nobody = rs256(&without("roles"));
    assert_eq!(scene.me(&nobody).await.told(), (403, "FORBIDDEN".to_owned()));
}

#[tokio::test]
async fn jwt_alg_none() {
    let scene = Scene::new().await;
    for alg in ["none", "None", "NONE", ""] {
        let header = BASE64.encode(json!({ "alg": alg, "kid": "rsa" }).to_string());
        let body = BASE64.encode(claims().to_string());
        scene.refuses(&format!("{header}.{body}."), alg).await;
        let signature = rs256(&claims()).rsplit('.').next().unwrap().to_owned();
        scene.refuses(&format!("{header}.{body}.{signature}"), alg).await;
    }
    assert_eq!(scene.asked(), 0, "nobody is asked about it");
}

#[tokio::test]
async fn jwt_hs256_with_rsa_public_key() {
    let scene = Scene::new().await;
    let modulus = BASE64.decode(MODULUS.trim()).unwrap();
    for secret in [MODULUS.trim().as_bytes(), &modulus] {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            let token = signed(algorithm, "rsa", &EncodingKey::from_secret(secret), &claims());
            scene.refuses(&token, "signed with what everybody knows").await;
        }
    }
}

#[tokio::test]
async fn jwt_expired() {
    let scene = Scene::new().await;
    scene.refuses(&rs256(&with("exp", json!(seconds() - 61))), "expired").await;
    scene.refuses(&rs256(&without("exp")), "without an end").await;
    scene.refuses(&rs256(&with("nbf", json!(seconds() + 120))), "not yet").await;
    let token = rs256(&claims());
    assert_eq!(scene.me(&token).await.status, 200);
    scene.house.watch.forward(Millis::mins(12));
    scene.refuses(&token, "expired since").await;
}

#[tokio::test]
async fn jwt_wrong_aud() {
    let scene = Scene::new().await;
    for aud in [json!("others"), json!([]), json!(""), json!(["countersign2"]), json!(null)] {
        scene.refuses(&rs256(&with("aud", aud.clone())), &aud.to_string()).await;
    }
    scene.refuses(&rs256(&without("aud")), "for nobody").await;
    scene.refuses(&rs256(&with("iss", json!("https://id.example.com/"))), "another issuer").await;
    scene.refuses(&rs256(&without("iss")), "of nobody").await;
}

#[tokio::test]
async fn a_token_that_is_not_what_it_says_is_refused() {
    let scene = Scene::new().await;
    let good = rs256(&claims());
    let other = EncodingKey::from_rsa_der(OTHER);
    scene.refuses(&signed(Algorithm::RS256, "rsa", &other, &claims()), "another's signature").await;
    scene
        .refuses(&signed(Algorithm::RS512, "rsa", &EncodingKey::from_rsa_der(RSA), &claims()), "RS512")
        .await;
    scene.refuses(&signed(Algorithm::RS256, "ec", &EncodingKey::from_rsa_der(RSA), &claims()), "kid").await;
    let parts: Vec<&str> = good.split('.').collect();
    let body = BASE64.encode(with("org", json!("umbrella")).to_string());
    scene.refuses(&format!("{}.{body}.{}", parts[0], parts[2]), "another body").await;
    let critical = BASE64.encode(json!({ "alg": "RS256", "kid": "rsa", "crit": ["x"] }).to_string());
    scene.refuses(&format!("{critical}.{}.{}", parts[1], parts[2]), "demands to be understood").await;
    for claims in [without("org"), with("org", json!("a#b")), with("name", json!("a b")), without("sub")] {
        scene.refuses(&rs256(&claims), &claims.to_string()).await;
    }
    for text in ["..", "a.b", "a.b.c.d", &"x.".repeat(20_000)] {
        scene.refuses(text, "no token").await;
    }
}

#[tokio::test]
async fn an_algorithm_counts_only_if_the_operator_named_it() {
    let scene = Scene::with(vec![Signed::Es256]).await;
    scene.refuses(&rs256(&claims()), "RS256 was not named").await;
    let es256 = signed(Algorithm::ES256, "ec", &EncodingKey::from_ec_der(EC), &claims());
    assert_eq!(scene.me(&es256).await.status, 200);
}

#[tokio::test]
async fn jwks_down() {
    let scene = Scene::new().await;
    scene.provider.down.store(true, Ordering::SeqCst);
    let token = rs256(&with("exp", json!(seconds() + 86_400)));
    let early = scene.me(&token).await;
    assert_eq!(early.told(), (503, "UNAVAILABLE".to_owned()));
    assert_eq!(early.header("retry-after"), "2");
    assert!(!early.text().contains("127.0.0.1") && !early.text().contains("keys\""), "{}", early.text());
    // It comes back, its keys become known, it goes again: what is known goes on working.
    scene.provider.down.store(false, Ordering::SeqCst);
    scene.house.watch.forward(Millis::secs(31));
    assert_eq!(scene.me(&token).await.status, 200);
    scene.provider.down.store(true, Ordering::SeqCst);
    scene.house.watch.forward(Millis::mins(60));
    assert_eq!(scene.me(&token).await.status, 200);
    scene.house.watch.forward(Millis::secs(31));
    let strange = signed(Algorithm::RS256, "new", &EncodingKey::from_rsa_der(RSA), &claims());
    assert_eq!(scene.me(&strange).await.told(), (503, "UNAVAILABLE".to_owned()));
    assert_eq!(scene.house.get(scene.house.acme.key(domain::Role::Viewer), "/me").await.status, 200);
}

#[tokio::test]
async fn a_storm_of_unknown_keys_asks_the_provider_once_in_a_while() {
    let scene = Scene::new().await;
    for number in 0..20 {
        let kid = format!("made-up-{number}");
        let token = signed(Algorithm::RS256, &kid, &EncodingKey::from_rsa_der(RSA), &claims());
        scene.refuses(&token, &kid).await;
    }
    assert_eq!(scene.asked(), 1);
    assert_eq!(scene.me(&rs256(&claims())).await.status, 200);
    scene.house.watch.forward(Millis::secs(31));
    let token = signed(Algorithm::RS256, "made-up", &EncodingKey::from_rsa_der(RSA), &claims());
    scene.refuses(&token, "still unknown").await;
    assert_eq!(scene.asked(), 2);
}
