//! A name is the same in stored JSON, in texts and in workflow files.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use countersign_domain::machine::StepStatus;
use countersign_domain::plan::{Environment, OnReject, OnTimeout, Phase, Validation};
use countersign_domain::{
    ApprovalStatus, BlastRadius, Code, ConcurrencyScope, EffectClass, OnConflict, Role, RunStatus, Source,
    Tier,
};
use serde::Serialize;
use strum::VariantNames;

fn assert_shown_as_stored<T: Copy + Display + Serialize>(values: &[T]) {
    for value in values {
        assert_eq!(serde_json::to_value(value).unwrap(), value.to_string());
    }
}

fn assert_parsed_as_stored<T>()
where
    T: Copy + Display + FromStr<Err: Debug> + Serialize + VariantNames,
{
    let values: Vec<T> = T::VARIANTS.iter().map(|name| name.parse().unwrap()).collect();
    assert_shown_as_stored(&values);
}

#[test]
fn names_are_shown_as_they_are_stored() {
    use ApprovalStatus::{Approved, Canceled, Expired, Rejected, Requested};
    use EffectClass::{CompareAndSet, LookUp, NativeKey, Opaque, ReadOnly};
    assert_shown_as_stored(RunStatus::ALL);
    assert_shown_as_stored(StepStatus::ALL);
    assert_shown_as_stored(Code::ALL);
    assert_shown_as_stored(Source::ALL);
    assert_shown_as_stored(&Role::ALL);
    assert_shown_as_stored(&[ReadOnly, NativeKey, CompareAndSet, LookUp, Opaque]);
    for status in [Requested, Approved, Rejected, Expired, Canceled] {
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
    }
}

#[test]
fn names_in_workflow_files_are_stored_unchanged() {
    assert_parsed_as_stored::<Environment>();
    assert_parsed_as_stored::<Validation>();
    assert_parsed_as_stored::<Phase>();
    assert_parsed_as_stored::<OnTimeout>();
    assert_parsed_as_stored::<OnReject>();
    assert_parsed_as_stored::<OnConflict>();
    assert_parsed_as_stored::<ConcurrencyScope>();
    assert_parsed_as_stored::<BlastRadius>();
    assert_parsed_as_stored::<Tier>();
}
