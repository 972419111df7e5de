//! The environment of one test: table, queues, buckets, secrets and functions, all under a unique name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use domain::tenant::Person;
use domain::{Cause, Initiator, Millis, Plan, QueueName, Role, RunKey, Tenant, WorkspaceId};
use engine::{Engine, StartRun};
use evidence::SigningKey;
use fakes::servicenow::{self, ServiceNow};
use fakes::slack::{ButtonPress, FakeSlack};
use serde_json::{Value, json};
use store::aws::{self, AwsParts, AwsStore, Buckets, QueueUrls, S3Blobs, SqsQueue};
use store::{Clock, Governance as _, Queue as _, SystemClock};
use testkit::TestClock;

use crate::gateway::{Api, Function, Gateway, Reply};
use crate::process::WorkerProcess;

pub const TENANT: &str = "acme";

/// The trace context that ServiceNow sends with every delivery.
pub const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The functions and their timeouts. The sweep has the timeout from terraform; the others have more, because a local AWS
/// starts them on a machine that runs everything else as well.
const FUNCTIONS: [(&str, Duration); 3] = [
    ("webhook", Duration::from_secs(30)),
    ("slack", Duration::from_secs(30)),
    ("sweep", Duration::from_secs(50)),
];

const WEBHOOK_SECRET: &str = "a secret that only ServiceNow knows";
const SLACK_SECRET: &str = "fake-signing-secret";

/// Fakes of the external systems.
pub struct ExternalSystems {
    pub servicenow: ServiceNow,
    pub slack: FakeSlack,
}

pub struct DeployedEnv {
    pub external: ExternalSystems,
    /// The deployed HTTP API.
    pub api: Api,
    /// A client of the local AWS.
    pub gateway: Gateway,
    name: String,
    config: TestConfig,
    queues: QueueUrls,
    key: SigningKey,
}

/// The servers and programs that a test uses.
#[derive(Debug, Clone)]
pub struct TestConfig {
    /// The address of the local AWS.
    pub aws: String,
    /// The address of a separate DynamoDB for the table, if any.
    pub dynamodb: Option<String>,
    /// The directory of the built programs.
    pub programs: PathBuf,
    /// Additional environment variables, by program.
    pub extra_env: BTreeMap<String, Vec<(String, String)>>,
}

impl TestConfig {
    /// The configuration that `cargo xtask test` passes in environment variables.
    pub fn from_environment() -> Self {
        let programs = PathBuf::from(variable("COUNTERSIGN_PROGRAMS"));
        Self { aws: variable("COUNTERSIGN_AWS"), dynamodb: None, programs, extra_env: BTreeMap::new() }
    }

    /// The address of the DynamoDB with the table.
    fn table(&self) -> &str {
        self.dynamodb.as_ref().unwrap_or(&self.aws)
    }
}

impl DeployedEnv {
    /// Creates and deploys everything.
    pub async fn open(name: &str) -> Self {
        Self::open_at(TestConfig::from_environment(), name).await
    }

    /// Creates and deploys everything with the given configuration.
    pub async fn open_at(config: TestConfig, name: &str) -> Self {
        let name = format!("{name}-{}", unique_suffix());
        let external = ExternalSystems {
            servicenow: ServiceNow::start().await.unwrap(),
            slack: FakeSlack::start().await.unwrap(),
        };
        let aws_config = aws::configure(Some(&config.aws)).await;
        let ledger = aws::configure(Some(config.table())).await;
        aws::create_table(&aws::dynamodb(&ledger), &name).await.unwrap();
        aws::create_buckets(&aws::s3(&aws_config), &buckets(&name)).await.unwrap();
        let queues = aws::create_queues(&aws::sqs(&aws_config), &name).await.unwrap();
        let gateway = Gateway::new(&config.aws);
        let key = SigningKey::from_seed([7; 32]);
        let api = gateway.api(&routes(&name)).await;
        let env = Self { external, api, gateway, name, config, queues, key };
        env.deploy().await;
        env.store().await.put_tenant(directory()).await.unwrap();
        env
    }

    async fn deploy(&self) {
        self.gateway.create_secret(&self.secret_name(), &self.secrets()).await;
        for (program, timeout) in FUNCTIONS {
            let environment = self.environment(program);
            let function = Function {
                name: &format!("{}-{program}", self.name),
                program: &self.config.programs.join(program),
                timeout,
                environment: &environment,
            };
            self.gateway.deploy(&function).await;
        }
    }

    /// The store, as an operator opens it.
    pub async fn store(&self) -> AwsStore<SqsQueue, S3Blobs> {
        let aws_config = aws::configure(Some(&self.config.aws)).await;
        let ledger = aws::configure(Some(self.config.table())).await;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        AwsStore::new(AwsParts {
            client: aws::dynamodb(&ledger),
            table: self.name.clone(),
            queue: SqsQueue::new(aws::sqs(&aws_config), self.queues.clone()),
            blobs: S3Blobs::new(aws::s3(&aws_config), buckets(&self.name), Arc::clone(&clock)),
            clock,
        })
    }

    /// The number of dead-letter messages of `queue`, readable or not.
    pub async fn dead_letter_count(&self, queue: QueueName) -> u64 {
        let aws_config = aws::configure(Some(&self.config.aws)).await;
        let QueueUrls { ingest, decisions, steps } = &self.queues;
        let [ingest, decisions, steps] = [ingest, decisions, steps].map(|url| format!("{url}-dead"));
        let dead = SqsQueue::new(aws::sqs(&aws_config), QueueUrls { ingest, decisions, steps });
        dead.depth(queue).await.unwrap()
    }

    /// Sends `body` to the steps queue as it is.
    pub async fn send_raw_message(&self, body: &str) {
        let aws_config = aws::configure(Some(&self.config.aws)).await;
        let send = aws::sqs(&aws_config).send_message().queue_url(&self.queues.steps).message_body(body);
        send.send().await.unwrap();
    }

    /// Starts a worker.
    pub fn worker(&self) -> WorkerProcess {
        self.worker_with_log(Stdio::null())
    }

    /// Starts a worker; its log goes to `log`.
    pub fn worker_with_log(&self, log: impl Into<Stdio>) -> WorkerProcess {
        self.worker_with(&[], log)
    }

    /// Like `worker_with_log`, with additional environment variables.
    pub fn worker_with(&self, more: &[(&str, &str)], log: impl Into<Stdio>) -> WorkerProcess {
        WorkerProcess::start(self.worker_command(more), log)
    }

    /// The command that starts a worker.
    pub fn worker_command(&self, more: &[(&str, &str)]) -> Command {
        let mut command = Command::new(self.worker_program());
        command.env_clear().envs(self.environment("worker")).envs(more.iter().copied());
        command
    }

    /// Runs the health check of the worker at `url`, as its container does; returns the exit code and standard error.
    pub fn worker_health(&self, url: &str) -> (Option<i32>, String) {
        let output = Command::new(self.worker_program()).args(["health", url]).env_clear().output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn worker_program(&self) -> PathBuf {
        self.config.programs.join("countersign-worker")
    }

    /// The CLI with the environment of an operator.
    pub fn countersign(&self) -> Command {
        let mut command = Command::new(self.config.programs.join("countersign"));
        command.env_clear().envs(self.environment("countersign"));
        command
    }

    /// The key that signs the evidence.
    pub fn key(&self) -> &SigningKey {
        &self.key
    }

    pub fn evidence_bucket(&self) -> String {
        buckets(&self.name).evidence
    }

    /// Invokes the sweep, as the schedule does. Returns its answer, or the error.
    pub async fn sweep(&self) -> Result<Value, String> {
        self.gateway.invoke(&format!("{}-sweep", self.name), &json!({ "time": "now" })).await
    }

    /// Delivers a ServiceNow webhook for an incident.
    pub async fn incident(&self, sys_id: &str, changes: u32, record: Value) -> Reply {
        self.deliver(&webhook_body(sys_id, changes, record), WEBHOOK_SECRET).await
    }

    /// Like `incident`; an error if there is no reply.
    pub async fn try_incident(
        &self,
        sys_id: &str,
        changes: u32,
        record: Value,
    ) -> Result<Reply, reqwest::Error> {
        self.try_deliver(&webhook_body(sys_id, changes, record), WEBHOOK_SECRET).await
    }

    /// Posts `body`, signed with `secret`.
    pub async fn deliver(&self, body: &[u8], secret: &str) -> Reply {
        self.try_deliver(body, secret).await.unwrap_or_else(|error| panic!("deliver: {error}"))
    }

    async fn try_deliver(&self, body: &[u8], secret: &str) -> Result<Reply, reqwest::Error> {
        let timestamp = (SystemClock.now().0 / 1_000).to_string();
        let signature = signing::sign(&secret.into(), &timestamp, body);
        let headers = [
            ("content-type", "application/json"),
            ("x-countersign-timestamp", &*timestamp),
            ("x-countersign-signature", &*signature),
            ("traceparent", TRACEPARENT),
        ];
        self.api.try_post(&format!("/webhook/servicenow/{TENANT}"), &headers, body).await
    }

    /// `user` presses a button of the Slack message at `place`; returns the reply of the function.
    pub async fn press(&self, place: &str, action_id: &str, user: &str) -> Reply {
        let at_secs = SystemClock.now().0 / 1_000;
        let press = ButtonPress { place, action_id, user, team: "T0SIM", at_secs };
        let callback = self.external.slack.press(&press).unwrap();
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            (slack::signature::TIMESTAMP_HEADER, &*callback.timestamp),
            (slack::signature::SIGNATURE_HEADER, &*callback.signature),
        ];
        self.api.post(&format!("/slack/interactions/{TENANT}"), &headers, &callback.body).await
    }

    /// Applies a workflow.
    pub async fn apply(&self, source: &str) -> Plan {
        self.apply_earlier(source, Millis(0)).await
    }

    /// Applies a workflow with a clock that is `ago` behind, so that its schedule is due.
    pub async fn apply_earlier(&self, source: &str, ago: Millis) -> Plan {
        let engine = self.engine(ago).await;
        let plan = testkit::plan(&engine, source);
        let by = Initiator::new(Cause::User, "ada");
        engine.tenant_handle(&TENANT.parse().unwrap(), &by).apply(&plan).await.unwrap();
        plan
    }

    /// Starts a run of `plan` with a clock that is `ago` behind, so that the run is overdue.
    pub async fn start_earlier(&self, plan: &Plan, key: &str, input: Value, ago: Millis) -> RunKey {
        let request = StartRun {
            tenant: TENANT.parse().unwrap(),
            workspace: WorkspaceId::default(),
            plan: plan.clone(),
            trigger_kind: "e2e".to_owned(),
            key: key.parse().unwrap(),
            record: None,
            input,
            by: Initiator::new(Cause::System, "e2e"),
            applied_by: None,
            inherited: domain::Inherited::default(),
        };
        let engine = self.engine(ago).await;
        Box::pin(engine.admission().start(request)).await.unwrap().run
    }

    /// An engine with a clock that is `ago` behind.
    async fn engine(&self, ago: Millis) -> Engine<AwsStore<SqsQueue, S3Blobs>> {
        let clock = TestClock::system();
        clock.rewind(ago);
        testkit::engine().standard_tools().clock(clock).me("e2e").on(self.store().await)
    }

    fn secret_name(&self) -> String {
        format!("{}-secrets", self.name)
    }

    /// The content of the secret in Secrets Manager.
    pub fn secrets(&self) -> Value {
        use secrecy::ExposeSecret as _;
        json!({
            "SERVICENOW_WEBHOOK": WEBHOOK_SECRET,
            "SERVICENOW_PASSWORD": servicenow::PASSWORD,
            "GITHUB_TOKEN": fakes::github::TOKEN,
            "SLACK_TOKEN": "xoxb-fake",
            "SECRET_ID_acme": "secret-acme",
            "SECRET_ID_globex": "secret-globex",
            "SLACK_SIGNING": SLACK_SECRET,
            "EVIDENCE_KEY": self.key.to_text().expose_secret(),
        })
    }

    fn environment(&self, program: &str) -> BTreeMap<String, String> {
        let buckets = buckets(&self.name);
        let mut variables = vec![
            ("AWS_ENDPOINT_URL", self.config.aws.clone()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("RUST_LOG", "info".to_owned()),
            ("COUNTERSIGN_TABLE", self.name.clone()),
            ("COUNTERSIGN_QUEUE_INGEST", self.queues.ingest.clone()),
            ("COUNTERSIGN_QUEUE_DECISIONS", self.queues.decisions.clone()),
            ("COUNTERSIGN_QUEUE_STEPS", self.queues.steps.clone()),
            ("COUNTERSIGN_PAYLOADS", buckets.payloads),
            ("COUNTERSIGN_EVIDENCE", buckets.evidence),
            ("COUNTERSIGN_SECRET", self.secret_name()),
        ];
        variables.extend(self.config.dynamodb.clone().map(|there| ("AWS_ENDPOINT_URL_DYNAMODB", there)));
        match program {
            "webhook" => variables.push(("COUNTERSIGN_SOURCES", sources())),
            "slack" => variables.push(("COUNTERSIGN_CONFIG", self.systems())),
            "worker" => variables.extend([
                ("COUNTERSIGN_CONFIG", self.systems()),
                ("COUNTERSIGN_EVIDENCE_RETENTION_DAYS", "1".to_owned()),
                ("COUNTERSIGN_HEALTH", "127.0.0.1:0".to_owned()),
            ]),
            _ => {}
        }
        let more = self.config.extra_env.get(program).into_iter().flatten().cloned();
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(more).collect()
    }

    fn systems(&self) -> String {
        let ExternalSystems { servicenow, slack } = &self.external;
        format!(
            "connections:\n\
             \x20 - {{ name: servicenow, kind: servicenow, base_url: '{}', environment: dev,\n\
             \x20     credential: {{ type: basic, user: {}, password: 'env://SERVICENOW_PASSWORD' }} }}\n\
             \x20 - {{ tenant: {TENANT}, name: slack, kind: slack, base_url: '{}/api', environment: dev,\n\
             \x20     credential: {{ type: bearer, token: 'env://SLACK_TOKEN' }},\n\
             \x20     options: {{ channel: C0APPROVALS, signing_secret: 'env://SLACK_SIGNING' }} }}\n",
            servicenow.url(),
            servicenow::USER,
            slack.url(),
        )
    }
}

fn webhook_body(sys_id: &str, changes: u32, mut record: Value) -> Vec<u8> {
    record["sys_id"] = json!(sys_id);
    record["sys_mod_count"] = json!(changes.to_string());
    json!({ "table": "incident", "record": record }).to_string().into_bytes()
}

fn sources() -> String {
    format!("- {{ tenant: {TENANT}, source: servicenow, scheme: hmac, secret_env: SERVICENOW_WEBHOOK }}\n")
}

fn buckets(name: &str) -> Buckets {
    Buckets { payloads: format!("{name}-payloads"), evidence: format!("{name}-evidence"), retain: None }
}

fn routes(name: &str) -> Vec<(String, String)> {
    [
        ("POST /webhook/{source}/{tenant}", "webhook"),
        ("POST /slack/interactions/{tenant}", "slack"),
        ("POST /slack/commands/{tenant}", "slack"),
    ]
    .map(|(route, program)| (route.to_owned(), format!("{name}-{program}")))
    .into()
}

/// The tenant with its users ada and grace and their Slack ids.
fn directory() -> Tenant {
    let mut tenant = Tenant::new(TENANT.parse().unwrap());
    for (person, user) in [("ada", "U0ADA"), ("grace", "U0GRACE")] {
        let slack_roles = [Role::Operator, Role::Approver].into_iter().collect();
        let slack = Some(format!("T0SIM:{user}"));
        tenant.people.insert(person.parse().unwrap(), Person { slack, oidc: None, slack_roles });
    }
    tenant
}

fn unique_suffix() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; `cargo xtask test` sets it"))
}
