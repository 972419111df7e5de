//! The timeout of a function and those of the programs agree.

use crate::module::{infra, label, source, text_after, text_of};

#[test]
fn webhook_answers_before_the_function_timeout() {
    let module = infra().into_iter().find(|module| module.path == "modules/function").unwrap();
    let ended = module.blocks("variable").find(|block| label(block, 0) == "timeout_seconds").unwrap();
    let ended: u64 = text_of(&ended.body, "default").parse().unwrap();
    let code = source("crates/ingress/src/webhook/mod.rs");
    let answered: u64 = text_after(&code, "ANSWER_WITHIN: Millis = Millis::secs(", ')').parse().unwrap();
    assert!(
        answered < ended,
        "the function times out after {ended} s, but the webhook answers within {answered} s"
    );
}
