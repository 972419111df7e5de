//! Compares the default policy with the reference implementation on random actions:
//! `cargo run --release -p countersign-policy --example differential -- --actions 1000000`.
//!
//! Prints one line of JSON. Exits with 1 if there is a difference.
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "a developer tool")]

#[path = "../tests/support/case.rs"]
mod case;
#[path = "../tests/support/reference_policy.rs"]
mod reference_policy;

use std::process::ExitCode;
use std::time::Instant;

use countersign_policy::{CapUsage, PolicyBundle};
use domain::plan::Environment;
use domain::{ActionOrigin, BlastRadius, EffectClass, PersonId, Reversibility, ToolName};
use serde_json::json;

use case::Case;

/// A few examples are enough to find the cause of a difference.
const SHOWN_MAX: u64 = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let actions = match arguments.as_slice() {
        [] => 1_000_000,
        [flag, number] if flag == "--actions" => number.parse().unwrap(),
        _ => {
            eprintln!("usage: differential [--actions N]");
            return ExitCode::from(2);
        }
    };
    let started = Instant::now();
    let differences = compare(actions);
    let micros = started.elapsed().as_micros() / u128::from(actions.max(1));
    println!("{}", json!({"actions": actions, "differences": differences, "micros_per_action": micros}));
    ExitCode::from(u8::from(differences > 0))
}

fn compare(actions: u64) -> u64 {
    let bundle = PolicyBundle::built_in().unwrap();
    let mut random = Random(0);
    let mut differences = 0;
    for _ in 0..actions {
        let case = random.case();
        let (found, expected) = (bundle.evaluate(&case.request()).ruling, reference_policy::ruling(&case));
        if found != expected {
            differences += 1;
            if differences <= SHOWN_MAX {
                eprintln!("policy: {found:?}, reference: {expected:?}, for {case:#?}");
            }
        }
    }
    differences
}

/// The splitmix64 generator, so that the cases are the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_of<T: Clone>(&mut self, values: &[T]) -> T {
        let index = usize::try_from(self.below(values.len() as u64)).unwrap();
        values[index].clone()
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    fn number(&mut self) -> u32 {
        u32::try_from(self.below(66)).unwrap()
    }

    fn case(&mut self) -> Case {
        let mut case = Case {
            blast_radius: self.one_of(&[BlastRadius::Low, BlastRadius::Medium, BlastRadius::High]),
            critical: self.flag(),
            rollback: self.flag(),
            origin: self.one_of(&[
                ActionOrigin::Forward,
                ActionOrigin::RecordedInverse,
                ActionOrigin::DeclaredRollback,
            ]),
            attempt: 1 + self.number(),
            environment: self.one_of(&[Environment::Dev, Environment::Staging, Environment::Prod]),
            trigger: self.one_of(&["api", "servicenow", "schedule"]).to_owned(),
            requester: self.one_of(&[None, Some(PersonId::new("ada").unwrap())]),
            caps: CapUsage { writes_done: self.number(), writes_max: self.number() },
            ..Case::default()
        };
        self.vary_action(&mut case);
        case
    }

    fn vary_action(&mut self, case: &mut Case) {
        use EffectClass::{CompareAndSet, LookUp, NativeKey, Opaque, ReadOnly};
        use Reversibility::{Compensable, Inverse, Irreversible, NoEffect};
        case.action.tool =
            ToolName::new(self.one_of(&["servicenow.update", "http.request", "command.run"])).unwrap();
        case.action.class = self.one_of(&[ReadOnly, NativeKey, CompareAndSet, LookUp, Opaque]);
        case.action.reversibility =
            self.one_of(&[NoEffect, Inverse, Compensable, Irreversible("mail was sent".to_owned())]);
        case.action.destructive = self.flag();
        case.action.target = format!("incident/{:x}", self.next());
        case.action.fields = match self.below(3) {
            0 => json!({}),
            1 => json!({"argv": ["systemctl", "restart"], "timeout": self.number()}),
            _ => {
                json!({"table": "incident", "fields": {"note": format!("{:x}", self.next()), "n": self.number()}})
            }
        };
    }
}
