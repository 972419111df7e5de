//! Tokens of an identity provider, with a fake provider on this machine. The keys in `keys/` are for these tests only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use api::auth::{Oidc, OidcSettings, TokenAlgorithm};
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use countersign_contract::{ContractEnv, Reply};
use domain::{Millis, Role};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use store::{Clock as _, SystemClock};
use tokio::net::TcpListener;

const RSA: &[u8] = include_bytes!("keys/rsa.der");
const OTHER: &[u8] = include_bytes!("keys/other.der");
const EC: &[u8] = include_bytes!("keys/ec.der");
const MODULUS: &str = include_str!("keys/rsa.modulus");
const POINT: &str = include_str!("keys/ec.point");

/// A fake identity provider.
#[derive(Default)]
struct Provider {
    down: AtomicBool,
    requests: AtomicU32,
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
        provider.requests.fetch_add(1, Ordering::SeqCst);
        if provider.down.load(Ordering::SeqCst) {
            return Err(StatusCode::BAD_GATEWAY);
        }
        Ok(Json(Self::keys()))
    }
}

/// An environment that accepts tokens of a provider.
struct OidcEnv {
    env: ContractEnv,
    provider: Arc<Provider>,
}

impl OidcEnv {
    async fn new() -> Self {
        Self::with(vec![TokenAlgorithm::Rs256, TokenAlgorithm::Es256]).await
    }

    async fn with(signed: Vec<TokenAlgorithm>) -> Self {
        let provider = Arc::new(Provider::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/keys", get(Provider::serve)).with_state(Arc::clone(&provider));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let settings = OidcSettings {
            issuer: "https://id.example.com".to_owned(),
            audience: "countersign".to_owned(),
            jwks_url: Some(format!("http://{address}/keys").parse().unwrap()),
            signed,
            tenant_claim: "org".to_owned(),
            person_claim: "name".to_owned(),
            roles_claim: "roles".to_owned(),
        };
        let oidc = Oidc::new(settings).unwrap();
        Self { env: ContractEnv::with(|gate| gate.with_oidc(oidc)).await, provider }
    }

    async fn me(&self, token: &str) -> Reply {
        self.env.get(token, "/me").await
    }

    /// The token gets the same response as an unknown API key.
    async fn refuses(&self, token: &str, why: &str) {
        let unknown = self.env.get("csk_acme_dead_00", "/me").await;
        assert_eq!(unknown.status, 401);
        assert_eq!(self.me(token).await, unknown, "{why}");
    }

    fn requests(&self) -> u32 {
        self.provider.requests.load(Ordering::SeqCst)
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
async fn directory_binds_a_name_to_one_subject() {
    let oidc = OidcEnv::new().await;
    let admin = oidc.env.acme.key(Role::Admin);
    let people = json!({ "adam": {}, "ada": { "oidc": "https://id.example.com#user|1" }, "bob": {} });
    let body = json!({ "caps": { "max_writes_per_run": 9 }, "people": people, "groups": {} });
    let put = oidc.env.json(&Method::PUT, admin, "/tenant", &body).await;
    assert_eq!(put.status, 200, "{put:?}");

    // The subject counts, and not the name that the user gave themselves.
    assert_eq!(oidc.me(&rs256(&claims())).await.json()["person"], json!("ada"));
    let mut another = with("sub", json!("user|2"));
    another["name"] = json!("Ada");
    oidc.refuses(&rs256(&another), "the name belongs to another subject").await;
    // An entry without a subject is no entry of this user.
    another["name"] = json!("bob");
    assert_eq!(oidc.me(&rs256(&another)).await.json()["roles"], json!(["viewer"]));
}

/// Ada starts a run with a token whose subject her entry does not have, to approve it with her API key.
#[tokio::test]
async fn token_outside_the_directory_may_only_read() {
    let oidc = OidcEnv::new().await;
    let env = &oidc.env;
    let admin = env.acme.key(Role::Admin);
    let start = json!({ "workflow": "asks" });
    let token = |name: &str| {
        let mut claims = with("roles", json!(["operator", "approver", "admin"]));
        claims["name"] = json!(name);
        rs256(&claims)
    };
    let put = async |ada: Value, revision: Value| {
        let caps = json!({ "max_writes_per_run": 9 });
        let body =
            json!({ "caps": caps, "people": { "adam": {}, "ada": ada }, "groups": {}, "revision": revision });
        let put = env.json(&Method::PUT, admin, "/tenant", &body).await;
        assert_eq!(put.status, 200, "{put:?}");
    };
    assert_eq!(env.post(&token("ada"), "/runs", &start).await.status, 201, "a tenant without a directory");

    put(json!({}), json!(null)).await;
    for name in ["ada", "oidc-ada", "bob"] {
        assert_eq!(oidc.me(&token(name)).await.json()["roles"], json!(["viewer"]), "{name}");
        let approve = format!("/approvals/{}/approve", env.acme.runs.approval);
        for path in ["/runs", approve.as_str(), "/dispatch/start"] {
            let refused = env.post(&token(name), path, &start).await;
            assert_eq!(refused.status_and_code(), (403, "FORBIDDEN".to_owned()), "{name}: {path}");
            assert!(refused.text().contains("add `oidc: ISSUER#SUB`"), "{}", refused.text());
        }
    }

    put(json!({ "oidc": "https://id.example.com#user|1" }), json!(0)).await;
    let started = env.post(&token("bob"), "/runs", &start).await;
    assert_eq!(started.status, 201, "{}", started.text());
    let run = started.json()["run"].as_str().unwrap().to_owned();
    env.advance(&env.acme, &run.parse().unwrap()).await;
    let open = env.get(admin, "/approvals").await.json();
    let own = open["approvals"]
        .as_array()
        .unwrap()
        .iter()
        .find(|approval| approval["run"] == run.as_str())
        .unwrap();
    let path = format!("/approvals/{}/approve", own["approval"].as_str().unwrap());
    let key = env.post(admin, "/keys", &json!({ "person": "ada", "roles": ["approver"] })).await.json();
    let refused = env.post(key["secret"].as_str().unwrap(), &path, &json!({})).await;
    assert_eq!(
        refused.status_and_code(),
        (403, "APPROVAL_REFUSED".to_owned()),
        "one person under two credentials"
    );

    put(json!({}), json!(1)).await;
    let refused = env.post(&token("bob"), "/runs", &start).await;
    assert_eq!(refused.status_and_code(), (403, "FORBIDDEN".to_owned()), "the entry lost its subject");
}

/// A user requests a run, changes the name that the provider puts into their tokens, and approves the run.
#[tokio::test]
async fn oidc_sub_same_username_changed() {
    let oidc = OidcEnv::new().await;
    let env = &oidc.env;
    let people = json!({
        "adam": {},
        "mallory": { "oidc": "https://id.example.com#user|1" },
        "grace": {},
        "heidi": { "oidc": "https://id.example.com#user|2" },
    });
    let body = json!({ "caps": { "max_writes_per_run": 9 }, "people": people, "groups": {} });
    let put = env.json(&Method::PUT, env.acme.key(Role::Admin), "/tenant", &body).await;
    assert_eq!(put.status, 200, "{put:?}");
    let token = |sub: &str, name: &str| {
        let mut claims = with("roles", json!(["operator", "approver"]));
        (claims["sub"], claims["name"]) = (json!(sub), json!(name));
        rs256(&claims)
    };
    let started = env.post(&token("user|1", "mallory"), "/runs", &json!({ "workflow": "asks" })).await.json();
    let run = started["run"].as_str().unwrap();
    env.advance(&env.acme, &run.parse().unwrap()).await;
    let open = env.get(&token("user|1", "mallory"), "/approvals").await.json();
    let approvals = open["approvals"].as_array().unwrap();
    let approval = approvals.iter().find(|approval| approval["run"] == run).unwrap();
    let path = format!("/approvals/{}/approve", approval["approval"].as_str().unwrap());

    for name in ["grace", "heidi", "Mallory", "new-name"] {
        let refused = env.post(&token("user|1", name), &path, &json!({})).await;
        assert_eq!(refused.status_and_code(), (403, "APPROVAL_REFUSED".to_owned()), "{name}");
    }

    let approved = env.post(&token("user|2", "any-name"), &path, &json!({})).await;
    assert_eq!(approved.status, 200, "{}", approved.text());
}

#[tokio::test]
async fn token_grants_its_roles_in_its_tenant() {
    let oidc = OidcEnv::new().await;
    let es256 = signed(Algorithm::ES256, "ec", &EncodingKey::from_ec_der(EC), &claims());
    for token in [rs256(&claims()), es256] {
        let me = oidc.me(&token).await;
        assert_eq!(me.status, 200, "{}", me.text());
        let me = me.json();
        assert_eq!((&me["tenant"], &me["person"]), (&json!("acme"), &json!("grace")));
        assert_eq!(me["roles"], json!(["viewer"]));
        let start = oidc.env.post(&token, "/runs", &json!({ "workflow": "plain" })).await;
        assert_eq!(start.status_and_code(), (403, "FORBIDDEN".to_owned()));
        let other = format!("/runs/{}", oidc.env.umbrella.runs.finished);
        assert_eq!(oidc.env.get(&token, &other).await.status_and_code(), (404, "NOT_FOUND".to_owned()));
    }
    assert_eq!(oidc.requests(), 1, "the keys are cached");
    let no_roles = rs256(&without("roles"));
    assert_eq!(oidc.me(&no_roles).await.status_and_code(), (403, "FORBIDDEN".to_owned()));
}

#[tokio::test]
async fn jwt_alg_none() {
    let oidc = OidcEnv::new().await;
    for alg in ["none", "None", "NONE", ""] {
        let header = BASE64.encode(json!({ "alg": alg, "kid": "rsa" }).to_string());
        let body = BASE64.encode(claims().to_string());
        oidc.refuses(&format!("{header}.{body}."), alg).await;
        let signature = rs256(&claims()).rsplit('.').next().unwrap().to_owned();
        oidc.refuses(&format!("{header}.{body}.{signature}"), alg).await;
    }
    assert_eq!(oidc.requests(), 0, "no request to the provider");
}

#[tokio::test]
async fn jwt_hs256_with_rsa_public_key() {
    let oidc = OidcEnv::new().await;
    let modulus = BASE64.decode(MODULUS.trim()).unwrap();
    for secret in [MODULUS.trim().as_bytes(), &modulus] {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            let token = signed(algorithm, "rsa", &EncodingKey::from_secret(secret), &claims());
            oidc.refuses(&token, "signed with the public key").await;
        }
    }
}

#[tokio::test]
async fn jwt_expired() {
    let oidc = OidcEnv::new().await;
    oidc.refuses(&rs256(&with("exp", json!(seconds() - 61))), "expired").await;
    oidc.refuses(&rs256(&without("exp")), "without an expiry").await;
    oidc.refuses(&rs256(&with("nbf", json!(seconds() + 120))), "not yet").await;
    let token = rs256(&claims());
    assert_eq!(oidc.me(&token).await.status, 200);
    oidc.env.clock.advance(Millis::mins(12));
    oidc.refuses(&token, "expired since").await;
}

#[tokio::test]
async fn jwt_wrong_aud() {
    let oidc = OidcEnv::new().await;
    for aud in [json!("others"), json!([]), json!(""), json!(["countersign2"]), json!(null)] {
        oidc.refuses(&rs256(&with("aud", aud.clone())), &aud.to_string()).await;
    }
    oidc.refuses(&rs256(&without("aud")), "no audience").await;
    oidc.refuses(&rs256(&with("iss", json!("https://id.example.com/"))), "another issuer").await;
    oidc.refuses(&rs256(&without("iss")), "no issuer").await;
}

#[tokio::test]
async fn forged_token_is_refused() {
    let oidc = OidcEnv::new().await;
    let good = rs256(&claims());
    let other = EncodingKey::from_rsa_der(OTHER);
    oidc.refuses(&signed(Algorithm::RS256, "rsa", &other, &claims()), "signature of another key").await;
    oidc.refuses(&signed(Algorithm::RS512, "rsa", &EncodingKey::from_rsa_der(RSA), &claims()), "RS512").await;
    oidc.refuses(&signed(Algorithm::RS256, "ec", &EncodingKey::from_rsa_der(RSA), &claims()), "kid").await;
    let parts: Vec<&str> = good.split('.').collect();
    let body = BASE64.encode(with("org", json!("umbrella")).to_string());
    oidc.refuses(&format!("{}.{body}.{}", parts[0], parts[2]), "another body").await;
    let critical = BASE64.encode(json!({ "alg": "RS256", "kid": "rsa", "crit": ["x"] }).to_string());
    oidc.refuses(&format!("{critical}.{}.{}", parts[1], parts[2]), "critical extension").await;
    for claims in [without("org"), with("org", json!("a#b")), with("name", json!("a b")), without("sub")] {
        oidc.refuses(&rs256(&claims), &claims.to_string()).await;
    }
    for text in ["..", "a.b", "a.b.c.d", &"x.".repeat(20_000)] {
        oidc.refuses(text, "no token").await;
    }
}

#[tokio::test]
async fn only_configured_algorithms_are_accepted() {
    let oidc = OidcEnv::with(vec![TokenAlgorithm::Es256]).await;
    oidc.refuses(&rs256(&claims()), "RS256 is not configured").await;
    let es256 = signed(Algorithm::ES256, "ec", &EncodingKey::from_ec_der(EC), &claims());
    assert_eq!(oidc.me(&es256).await.status, 200);
}

#[tokio::test]
async fn jwks_down() {
    let oidc = OidcEnv::new().await;
    oidc.provider.down.store(true, Ordering::SeqCst);
    let token = rs256(&with("exp", json!(seconds() + 86_400)));
    let early = oidc.me(&token).await;
    assert_eq!(early.status_and_code(), (503, "UNAVAILABLE".to_owned()));
    assert_eq!(early.header("retry-after"), "2");
    assert!(!early.text().contains("127.0.0.1") && !early.text().contains("keys\""), "{}", early.text());
    // After the provider was up once, cached keys stay valid while it is down.
    oidc.provider.down.store(false, Ordering::SeqCst);
    oidc.env.clock.advance(Millis::secs(31));
    assert_eq!(oidc.me(&token).await.status, 200);
    oidc.provider.down.store(true, Ordering::SeqCst);
    oidc.env.clock.advance(Millis::mins(60));
    assert_eq!(oidc.me(&token).await.status, 200);
    oidc.env.clock.advance(Millis::secs(31));
    let unknown = signed(Algorithm::RS256, "new", &EncodingKey::from_rsa_der(RSA), &claims());
    assert_eq!(oidc.me(&unknown).await.status_and_code(), (503, "UNAVAILABLE".to_owned()));
    assert_eq!(oidc.env.get(oidc.env.acme.key(Role::Viewer), "/me").await.status, 200);
}

#[tokio::test]
async fn unknown_key_ids_cause_few_requests() {
    let oidc = OidcEnv::new().await;
    for number in 0..20 {
        let kid = format!("made-up-{number}");
        let token = signed(Algorithm::RS256, &kid, &EncodingKey::from_rsa_der(RSA), &claims());
        oidc.refuses(&token, &kid).await;
    }
    assert_eq!(oidc.requests(), 1);
    assert_eq!(oidc.me(&rs256(&claims())).await.status, 200);
    oidc.env.clock.advance(Millis::secs(31));
    let token = signed(Algorithm::RS256, "made-up", &EncodingKey::from_rsa_der(RSA), &claims());
    oidc.refuses(&token, "still unknown").await;
    assert_eq!(oidc.requests(), 2);
}
