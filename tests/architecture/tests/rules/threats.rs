//! Every listed threat (forged webhooks, parsing and size, approval and Slack, API and tenancy, requests to outside, faults
//! and time, evidence, governance, connections, fleet, events and credentials) is a test of exactly that name.

use crate::code::code_of;
use crate::workspace::{file, sources};

const FAULTS_AND_TIME: [&str; 15] = [
    "ddb_throttle_forever",
    "ddb_conflict_storm",
    "ddb_reply_lost_then_condition_failed",
    "sqs_duplicate_after_delete",
    "sqs_reordered",
    "sqs_visibility_expires_mid_work",
    "sqs_poison_to_dlq",
    "batch_one_of_ten_fails",
    "s3_503_slowdown",
    "s3_checksum_mismatch",
    "clock_+1h",
    "clock_-1h",
    "sigstop_2_leases_then_sigcont",
    "disk_full_on_embedded_store",
    "gsi_stale_read",
];

const WEBHOOK_FORGERY_AND_REPLAY: [&str; 23] = [
    "sig_missing",
    "sig_empty",
    "sig_wrong_version_v1",
    "sig_short_63",
    "sig_nonhex",
    "sig_prefix_only",
    "sig_right_for_reencoded_body",
    "sig_valid_other_tenant",
    "sig_valid_previous_secret_in_grace",
    "sig_valid_previous_secret_after_grace",
    "sig_sha1_header_only",
    "ts_missing",
    "ts_301s_old",
    "ts_301s_future",
    "ts_i64_overflow",
    "replay_same_bytes_within_window",
    "replay_new_delivery_id_same_mac",
    "same_delivery_id_other_body",
    "slack_retry_num_header",
    "github_ping",
    "content_type_mismatch_form_vs_json",
    "base64_flag_lies",
    "path_tenant_differs_from_body_tenant",
];

const PARSING_AND_SIZE: [&str; 17] = [
    "body_empty",
    "body_26MB",
    "json_depth_10000",
    "json_duplicate_keys",
    "json_int_2^53_plus_1",
    "json_1e400",
    "json_lone_surrogate",
    "utf8_invalid",
    "nul_in_string",
    "sqs_forbidden_control_char",
    "key_delimiter_in_id",
    "id_2049_bytes",
    "item_over_400KB",
    "yaml_alias_bomb_in_workflow",
    "10k_step_workflow",
    "unknown_field_in_workflow",
    "template_injection_in_param",
];

const APPROVAL_AND_SLACK: [&str; 15] = [
    "click_by_non_approver",
    "click_by_requester_self_approval",
    "click_in_other_workspace_team_id",
    "click_twice_two_users_race",
    "click_after_expiry",
    "click_after_cancel",
    "approve_while_action_hash_changed",
    "forged_action_value_other_run",
    "response_url_not_slack",
    "bot_user_click",
    "mrkdwn_channel_mention",
    "mrkdwn_link_disguise",
    "rtl_override_in_command",
    "3001_char_block_text",
    "prompt_injection_in_ticket",
];

const API_AND_TENANCY: [&str; 13] = [
    "jwt_alg_none",
    "jwt_hs256_with_rsa_public_key",
    "jwt_expired",
    "jwt_wrong_aud",
    "jwks_down",
    "api_key_revoked",
    "api_key_in_query",
    "other_tenant_run_id",
    "list_cursor_from_other_tenant",
    "idempotency_key_same_other_body",
    "idempotency_key_reuse_other_tenant",
    "mass_assignment_status_field",
    "negative_page_size",
];

const REQUESTS_TO_OUTSIDE: [&str; 13] = [
    "169.254.169.254",
    "169.254.170.2",
    "fd00:ec2::254",
    "mapped_v4_in_v6",
    "decimal_ip",
    "localhost_trailing_dot",
    "dns_rebind_public_then_private",
    "redirect_to_metadata",
    "userinfo_trick",
    "file_scheme",
    "proxy_env_variable_set",
    "response_endless_stream",
    "header_injection_crlf_in_param",
];

const EVIDENCE: [&str; 9] = [
    "byte_flip_each_position",
    "entry_dropped",
    "entries_swapped",
    "tail_truncated",
    "bundle_from_other_tenant",
    "two_heads_same_seq",
    "big_int_receipt",
    "unsigned_checkpoint",
    "signature_by_wrong_key",
];

const GOVERNANCE: [&str; 19] = [
    "declared_rollback_hits_other_record",
    "rollback_ordered_and_approved_by_one",
    "signal_payload_becomes_action_then_self_approved",
    "requester_name_other_case",
    "requester_name_confusable",
    "oidc_sub_same_username_changed",
    "applier_approves_webhook_run",
    "author_not_in_directory",
    "retry_of_unknown_hides_first_attempt",
    "rejection_hidden_on_second_request",
    "card_flooded_by_long_body",
    "viewer_role_click",
    "removed_person_vote",
    "key_minted_for_other_person",
    "directory_emptied",
    "read_with_secret_in_query_under_deny_all",
    "method_override_underscore_header",
    "irreversible_action_as_rollback_in_dev",
    "policy_changed_between_request_and_claim",
];

const CONNECTIONS: [&str; 8] = [
    "workflow_names_other_tenants_connection",
    "dev_workflow_on_prod_connection",
    "literal_bearer_in_with",
    "secret_echoed_in_output",
    "secret_echoed_base64",
    "secret_split_across_chunks",
    "secret_in_error_body",
    "connection_base_url_redirects",
];

const FLEET: [&str; 3] =
    ["worker_old_version_rewrites_record", "slow_http_takes_all_slots", "slowloris_half_requests"];

const EVENTS: [&str; 5] = [
    "event_before_wait",
    "event_twice_same_id",
    "event_same_id_other_payload",
    "event_after_timeout",
    "two_workflows_one_event",
];

const CREDENTIALS: [&str; 8] = [
    "oauth_token_endpoint_private_address",
    "vault_sealed",
    "vault_revoke_times_out",
    "vault_403_after_rotation",
    "vault_token_expires_mid_step",
    "vault_lease_not_revoked_on_crash",
    "credential_fetched_by_old_fence",
    "secret_in_core_dump",
];

/// Threats against parts that do not exist yet, with the reason.
const UNTESTABLE: [(&str, [&str; 2]); 1] =
    [("workers outside AWS have no endpoints", ["worker_cert_expired", "worker_claims_other_profile"])];

#[test]
fn every_listed_threat_is_a_test_of_that_name() {
    let lists: [&[&str]; 12] = [
        &FAULTS_AND_TIME,
        &WEBHOOK_FORGERY_AND_REPLAY,
        &PARSING_AND_SIZE,
        &APPROVAL_AND_SLACK,
        &API_AND_TENANCY,
        &REQUESTS_TO_OUTSIDE,
        &EVIDENCE,
        &GOVERNANCE,
        &CONNECTIONS,
        &FLEET,
        &EVENTS,
        &CREDENTIALS,
    ];
    let tests = Tests::read();
    let names = lists.into_iter().flatten().copied();
    let missing: Vec<&str> = names.filter(|name| !tests.have(name)).collect();
    assert_eq!(missing, [""; 0], "threats without a test of that name");
}

#[test]
fn untestable_threat_has_no_test() {
    let tests = Tests::read();
    for (reason, names) in UNTESTABLE {
        for name in names {
            assert!(!tests.have(name), "`{name}` is a test now; remove it from UNTESTABLE ({reason})");
        }
    }
}

#[test]
fn test_is_a_function_or_a_table_row() {
    let has = |path: &str, source: &str| Tests(vec![File::new(path.to_owned(), source)]).have("bad");
    for marked in [
        "#[test]\nfn bad() {}",
        "fn other() {}\n#[tokio::test(start_paused = true)]\n#[expect(x)]\nasync fn bad() {}",
        "#[cfg(test)]\nmod tests {\n    #[test]\n    fn bad() {}\n}",
    ] {
        assert!(has("a/src/b.rs", marked), "{marked}");
    }
    for other in [
        "fn bad() {}",
        "#[test]\nfn bad_luck() {}",
        "#[test]\nfn other() {}\nfn bad() {}",
        "#[cfg(test)]\nmod tests {\n    fn bad() {}\n}",
        "// #[test]\n// fn bad() {}",
        "const NAMES: [&str; 1] = [\"bad\"];",
        "vec![\n    // (\"bad\", bad),\n]",
    ] {
        assert!(!has("a/tests/b.rs", other), "{other}");
    }
    let row = "vec![(\"é\", é), (\"bad\", |account| bad(account))]";
    let constant_row = "const NAME: &str = \"bad\";\nvec![trial(NAME, bad)]";
    for row in [row, constant_row] {
        assert!(has("a/tests/b.rs", row), "{row}");
        assert!(!has("a/src/b.rs", row), "only a test file has such a table: {row}");
    }
    assert!(!has("a/tests/b.rs", "const NAME: &str = \"bad\";\n// trial(NAME, bad)"));
}

/// The files that may contain a test.
struct Tests(Vec<File>);

impl Tests {
    /// All files except these rules, which name threats without testing them.
    fn read() -> Self {
        let paths = sources().into_iter().map(|source| source.path);
        let others = paths.filter(|path| !path.starts_with("tests/architecture/"));
        Self(others.map(|path| File::new(path.clone(), &file(&path))).collect())
    }

    fn have(&self, name: &str) -> bool {
        self.0.iter().any(|file| file.has_function(name) || file.has_row(name))
    }
}

/// A Rust file with its literals, because a table of tests has names as literals.
struct File {
    path: String,
    /// Each line with its literals, and its code.
    lines: Vec<(String, String)>,
    code: String,
}

impl File {
    fn new(path: String, source: &str) -> Self {
        let code = code_of(source);
        let lines = source.lines().zip(code.lines());
        let lines = lines.map(|(line, code)| (line.to_owned(), code.to_owned())).collect();
        Self { path, lines, code }
    }

    /// Whether a function of this name has a test attribute.
    fn has_function(&self, name: &str) -> bool {
        let head = format!("fn {name}(");
        self.code.match_indices(&head).any(|(at, _)| has_test_attribute(&self.code[..at]))
    }

    /// Whether a table of tests has a row with this name. Some of these names are not valid function names.
    fn has_row(&self, name: &str) -> bool {
        let literal = format!("\"{name}\"");
        let first_columns = [Some(literal.as_str()), self.constant(&literal)];
        let heads: Vec<String> =
            first_columns.into_iter().flatten().map(|first| format!("({first},")).collect();
        let has_head = |(line, code): &(String, String)| heads.iter().any(|head| opens(line, code, head));
        let is_for_tests = self.path.starts_with("tests/") || self.path.contains("/tests/");
        is_for_tests && self.lines.iter().any(has_head)
    }

    /// The constant with this value. A test that starts its own process again needs its name in two places.
    fn constant(&self, literal: &str) -> Option<&str> {
        let tail = format!(": &str = {literal};");
        self.lines.iter().find_map(|(line, _)| line.trim().strip_prefix("const ")?.strip_suffix(&tail))
    }
}

/// Whether the attributes before a function mark it as a test.
fn has_test_attribute(before: &str) -> bool {
    let attributes = before.rsplit(['{', '}', ';']).next().unwrap_or_default();
    ["test]", "test("].iter().any(|mark| attributes.contains(mark))
}

/// Whether the line contains `head` in code. In a comment the bracket would be blank.
fn opens(line: &str, code: &str, head: &str) -> bool {
    line.match_indices(head).any(|(at, _)| code.chars().nth(line[..at].chars().count()) == Some('('))
}
