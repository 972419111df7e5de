//! An account of one journey: table, queues, buckets, secrets, functions, all under a name of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use connectors::Allow;
use domain::tenant::Person;
use domain::{Cause, Initiator, Millis, Plan, QueueName, RunKey, Tenant, Timestamp, WorkspaceId};
use engine::{Engine, Parts, StartRun, Timing};
use evidence::SigningKey;
use fakes::servicenow::{self, ServiceNow};
use fakes::slack::{Press, SimulatedSlack};
use serde_json::{Value, json};
use store::aws::{self, AwsParts, AwsStore, Buckets, QueueUrls, S3Blobs, SqsQueue};
use store::{Clock, Governance as _, Queue as _, SystemClock};

use crate::gateway::{Api, Function, Gateway, Reply};
use crate::process::WorkerProcess;

/// Whose runs these are.
pub const TENANT: &str = "acme";

/// The work in ServiceNow that leads to whatever it delivers.
pub const LED_HERE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The functions, and how long each may take. The sweep has what terraform gives it; the others have more, because
/// a local AWS starts them on a machine that does everything else as well.
const FUNCTIONS: [(&str, Duration); 3] = [
    ("webhook", Duration::from_secs(30)),
    ("slack", Duration::from_secs(30)),
    ("sweep", Duration::from_secs(50)),
];

const WEBHOOK_SECRET: &str = "a secret that only ServiceNow knows";
const SLACK_SECRET: &str = "simulated-signing-secret";

/// The systems outside, simulated.
pub struct Outside {
    /// Where incidents are.
    pub servicenow: ServiceNow,
    /// Where people are.
    pub slack: SimulatedSlack,
}

/// An account with everything in it.
pub struct Account {
    /// What is outside.
    pub outside: Outside,
    /// Speaks to the functions.
    pub api: Api,
    /// Speaks to the account.
    pub gateway: Gateway,
    name: String,
    site: Site,
    queues: QueueUrls,
    key: SigningKey,
}

/// Where accounts are, and what is deployed in them.
#[derive(Debug, Clone)]
pub struct Site {
    /// Where the local AWS listens.
    pub aws: String,
    /// Where another DynamoDB listens, which has the table then.
    pub dynamodb: Option<String>,
    /// The directory of the programs, as they were built.
    pub programs: PathBuf,
    /// What some programs find in their environment beside the usual, by program.
    pub through: BTreeMap<String, Vec<(String, String)>>,
}

impl Site {
    /// As `cargo xtask test` says.
    pub fn from_environment() -> Self {
        let programs = PathBuf::from(variable("COUNTERSIGN_PROGRAMS"));
        Self { aws: variable("COUNTERSIGN_AWS"), dynamodb: None, programs, through: BTreeMap::new() }
    }

    /// Where the table is.
    fn table(&self) -> &str {
        self.dynamodb.as_ref().unwrap_or(&self.aws)
    }
}

impl Account {
    /// Everything is made and deployed.
    pub async fn open(name: &str) -> Self {
        Self::open_at(Site::from_environment(), name).await
    }

    /// Everything is made and deployed there.
    pub async fn open_at(site: Site, name: &str) -> Self {
        let name = format!("{name}-{}", now_nanos());
        let outside = Outside {
            servicenow: ServiceNow::start().await.unwrap(),
            slack: SimulatedSlack::start().await.unwrap(),
        };
        let config = aws::configure(Some(&site.aws)).await;
        let ledger = aws::configure(Some(site.table())).await;
        aws::create_table(&aws::dynamodb(&ledger), &name).await.unwrap();
        aws::create_buckets(&aws::s3(&config), &buckets(&name)).await.unwrap();
        let queues = aws::create_queues(&aws::sqs(&config), &name).await.unwrap();
        let gateway = Gateway::new(&site.aws);
        let key = SigningKey::from_seed([7; 32]);
        let api = gateway.api(&routes(&name)).await;
        let account = Self { outside, api, gateway, name, site, queues, key };
        account.deploy().await;
        account.store().await.put_tenant(directory()).await.unwrap();
        account
    }

    async fn deploy(&self) {
        self.gateway.keep_secret(&self.secret_name(), &self.secrets()).await;
        for (program, timeout) in FUNCTIONS {
            let environment = self.environment(program);
            let function = Function {
                name: &format!("{}-{program}", self.name),
                program: &self.site.programs.join(program),
                timeout,
                environment: &environment,
            };
            self.gateway.deploy(&function).await;
        }
    }

    /// The store, as an operator would open it.
    pub async fn store(&self) -> AwsStore<SqsQueue, S3Blobs> {
        let config = aws::configure(Some(&self.site.aws)).await;
        let ledger = aws::configure(Some(self.site.table())).await;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        AwsStore::new(AwsParts {
            client: aws::dynamodb(&ledger),
            table: self.name.clone(),
            queue: SqsQueue::new(aws::sqs(&config), self.queues.clone()),
            blobs: S3Blobs::new(aws::s3(&config), buckets(&self.name), Arc::clone(&clock)),
            clock,
        })
    }

    /// How many messages of `queue` were given up, whether or not they can be read.
    pub async fn given_up(&self, queue: QueueName) -> u64 {
        let config = aws::configure(Some(&self.site.aws)).await;
        let QueueUrls { ingest, decisions, steps } = &self.queues;
        let [ingest, decisions, steps] = [ingest, decisions, steps].map(|url| format!("{url}-dead"));
        let dead = SqsQueue::new(aws::sqs(&config), QueueUrls { ingest, decisions, steps });
        dead.depth(queue).await.unwrap()
    }

    /// Somebody puts `words` among the messages about steps.
    pub async fn scribble(&self, words: &str) {
        let config = aws::configure(Some(&self.site.aws)).await;
        let send = aws::sqs(&config).send_message().queue_url(&self.queues.steps).message_body(words);
        send.send().await.unwrap();
    }

    /// Starts a worker.
    pub fn worker(&self) -> WorkerProcess {
        self.worker_that_says(Stdio::null())
    }

    /// Starts a worker; what it logs goes to `log`.
    pub fn worker_that_says(&self, log: impl Into<Stdio>) -> WorkerProcess {
        self.worker_with(&[], log)
    }

    /// The same, with these variables beside the usual ones.
    pub fn worker_with(&self, more: &[(&str, &str)], log: impl Into<Stdio>) -> WorkerProcess {
        WorkerProcess::start(self.worker_command(more), log)
    }

    /// The command that starts one.
    pub fn worker_command(&self, more: &[(&str, &str)]) -> Command {
        let mut command = Command::new(self.worker_program());
        command.env_clear().envs(self.environment("worker")).envs(more.iter().copied());
        command
    }

    /// Asks the worker at `url` how it is, as its container does; the exit code, and what was complained about.
    pub fn worker_health(&self, url: &str) -> (Option<i32>, String) {
        let asked = Command::new(self.worker_program()).args(["health", url]).env_clear().output().unwrap();
        (asked.status.code(), String::from_utf8_lossy(&asked.stderr).into_owned())
    }

    fn worker_program(&self) -> PathBuf {
        self.site.programs.join("countersign-worker")
    }

    /// The program that a person touches, as an operator of the account types it.
    pub fn countersign(&self) -> Command {
        let mut command = Command::new(self.site.programs.join("countersign"));
        command.env_clear().envs(self.environment("countersign"));
        command
    }

    /// What evidence is verified with.
    pub fn key(&self) -> &SigningKey {
        &self.key
    }

    /// The bucket of evidence.
    pub fn evidence_bucket(&self) -> String {
        buckets(&self.name).evidence
    }

    /// Calls the sweep, as the schedule would. What it answered, or why it did not.
    pub async fn sweep(&self) -> Result<Value, String> {
        self.gateway.invoke(&format!("{}-sweep", self.name), &json!({ "time": "now" })).await
    }

    /// ServiceNow says that something happened to an incident.
    pub async fn incident(&self, sys_id: &str, changes: u32, record: Value) -> Reply {
        self.deliver(&letter(sys_id, changes, record), WEBHOOK_SECRET).await
    }

    /// The same; an error if nobody replied.
    pub async fn try_incident(
        &self,
        sys_id: &str,
        changes: u32,
        record: Value,
    ) -> Result<Reply, reqwest::Error> {
        self.try_deliver(&letter(sys_id, changes, record), WEBHOOK_SECRET).await
    }

    /// Somebody posts `body`, signed with `secret`.
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
            ("traceparent", LED_HERE),
        ];
        self.api.try_post(&format!("/webhook/servicenow/{TENANT}"), &headers, body).await
    }

    /// `user` presses a button of the message at `place`; what the function replied.
    pub async fn press(&self, place: &str, action_id: &str, user: &str) -> Reply {
        let at_secs = SystemClock.now().0 / 1_000;
        let press = Press { place, action_id, user, team: "T0SIM", at_secs };
        let callback = self.outside.slack.press(&press).unwrap();
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            (slack::signature::TIMESTAMP_HEADER, &*callback.timestamp),
            (slack::signature::SIGNATURE_HEADER, &*callback.signature),
        ];
        self.api.post(&format!("/slack/interactions/{TENANT}"), &headers, &callback.body).await
    }

    /// A workflow is put to use.
    pub async fn apply(&self, source: &str) -> Plan {
        self.apply_earlier(source, Millis(0)).await
    }

    /// A workflow was put to use so long `ago`, and nobody has looked at its schedule since.
    pub async fn apply_earlier(&self, source: &str, ago: Millis) -> Plan {
        let engine = self.engine(ago).await;
        let plan = workflow::parse(source, &engine.tools().names().cloned().collect()).unwrap();
        let by = Initiator::new(Cause::User, "ada");
        engine.apply(&TENANT.parse().unwrap(), &plan, by).await.unwrap();
        plan
    }

    /// A run of `plan` was started so long `ago`, and nobody has looked at it since.
    pub async fn start_earlier(&self, plan: &Plan, key: &str, input: Value, ago: Millis) -> RunKey {
        let wish = StartRun {
            tenant: TENANT.parse().unwrap(),
            workspace: WorkspaceId::default(),
            plan: plan.clone(),
            trigger_kind: "journey".to_owned(),
            key: key.parse().unwrap(),
            record: None,
            input,
            by: Initiator::new(Cause::System, "journey"),
        };
        let engine = self.engine(ago).await;
        Box::pin(engine.start(wish)).await.unwrap().run
    }

    /// An engine that lives so long `ago`.
    async fn engine(&self, ago: Millis) -> Engine<AwsStore<SqsQueue, S3Blobs>> {
        Engine::new(Parts {
            store: Arc::new(self.store().await),
            tools: connectors::standard(Allow::default(), connectors::Settings::default()),
            clock: Arc::new(Behind(ago)),
            me: "journey".parse().unwrap(),
            timing: Timing::default(),
            shows: None,
            sealing: None,
        })
    }

    fn secret_name(&self) -> String {
        format!("{}-secrets", self.name)
    }

    /// What is kept in Secrets Manager.
    pub fn secrets(&self) -> Value {
        use secrecy::ExposeSecret as _;
        json!({
            "SERVICENOW_WEBHOOK": WEBHOOK_SECRET,
            "SERVICENOW_PASSWORD": servicenow::PASSWORD,
            "SLACK_TOKEN": "xoxb-simulated",
            "SLACK_SIGNING": SLACK_SECRET,
            "EVIDENCE_KEY": self.key.to_text().expose_secret(),
        })
    }

    fn environment(&self, program: &str) -> BTreeMap<String, String> {
        let buckets = buckets(&self.name);
        let mut variables = vec![
            ("AWS_ENDPOINT_URL", self.site.aws.clone()),
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
        variables.extend(self.site.dynamodb.clone().map(|there| ("AWS_ENDPOINT_URL_DYNAMODB", there)));
        match program {
            "webhook" => variables.push(("COUNTERSIGN_SOURCES", sources())),
            "slack" => variables.push(("COUNTERSIGN_SYSTEMS", self.systems())),
            "worker" => variables.extend([
                ("COUNTERSIGN_SYSTEMS", self.systems()),
                ("COUNTERSIGN_EVIDENCE_KEEP_DAYS", "1".to_owned()),
                ("COUNTERSIGN_HEALTH", "127.0.0.1:0".to_owned()),
            ]),
            _ => {}
        }
        let more = self.site.through.get(program).into_iter().flatten().cloned();
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(more).collect()
    }

    fn systems(&self) -> String {
        let Outside { servicenow, slack } = &self.outside;
        format!(
            "servicenow: {{ base: '{}', user: {}, password_env: SERVICENOW_PASSWORD }}\n\
             slack:\n  base: '{}/api'\n  token_env: SLACK_TOKEN\n  channel: C0APPROVALS\n\
             \x20 doors: [{{ tenant: {TENANT}, secret: SLACK_SIGNING }}]\n",
            servicenow.url(),
            servicenow::USER,
            slack.url(),
        )
    }
}

/// This machine's clock, behind by so much: whatever is written by it is as old.
struct Behind(Millis);

impl Clock for Behind {
    fn now(&self) -> Timestamp {
        SystemClock.now().earlier(self.0)
    }
}

fn letter(sys_id: &str, changes: u32, mut record: Value) -> Vec<u8> {
    record["sys_id"] = json!(sys_id);
    record["sys_mod_count"] = json!(changes.to_string());
    json!({ "table": "incident", "record": record }).to_string().into_bytes()
}

fn sources() -> String {
    format!("- {{ tenant: {TENANT}, source: servicenow, scheme: hmac, secret: SERVICENOW_WEBHOOK }}\n")
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

/// The people: ada and grace, as Slack knows them.
fn directory() -> Tenant {
    let mut tenant = Tenant::new(TENANT.parse().unwrap());
    for (person, user) in [("ada", "U0ADA"), ("grace", "U0GRACE")] {
        tenant.people.insert(person.parse().unwrap(), Person { slack: Some(format!("T0SIM:{user}")) });
    }
    tenant
}

fn now_nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; `cargo xtask test` sets it"))
}
