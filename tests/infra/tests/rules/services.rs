//! Every balancer uses TLS, logs access, and has alarms on failing targets; every service has an alarm on missing tasks.

use hcl_edit::expr::Expression;
use hcl_edit::structure::Block;

use crate::module::{Module, assert_reported, fixture, infra, label, text_of, value, value_in};

/// Required settings of a balancer.
const BALANCER_SETTINGS: [(&str, &str); 2] =
    [("drop_invalid_header_fields", "true"), ("desync_mitigation_mode", "defensive")];

/// The metrics that need an alarm, with the resource that they count.
const ALARMS: [(&str, &str); 3] = [
    ("UnHealthyHostCount", "aws_lb_target_group"),
    ("HTTPCode_Target_5XX_Count", "aws_lb_target_group"),
    ("HTTPCode_ELB_5XX_Count", "aws_lb"),
];

/// Policies with this prefix accept only TLS 1.2 and 1.3.
const TLS: &str = "ELBSecurityPolicy-TLS13-1-2-";

#[test]
fn security_group_descriptions_are_valid_for_ec2() {
    assert_eq!(invalid_descriptions(&infra()), [""; 0]);
    let quoted = r#"
        resource "aws_security_group" "a" { description = "AWS's endpoints" }
        resource "aws_vpc_security_group_egress_rule" "b" { description = "out — to ${var.name}" }
        resource "aws_security_group" "c" { description = "Tasks of ${var.name}: in (443), out" }
    "#;
    let faults = invalid_descriptions(&fixture(quoted));
    assert_reported(&faults, "aws_security_group.a");
    assert_reported(&faults, "aws_vpc_security_group_egress_rule.b");
    assert_eq!(faults.len(), 2, "{faults:?}");
}

/// Security groups and rules whose description EC2 rejects at creation; a plan does not detect it.
fn invalid_descriptions(modules: &[Module]) -> Vec<String> {
    let takes = |c: char| c.is_ascii_alphanumeric() || "._-:/()#,@[]+=&;{}!$* ".contains(c);
    let per_module = |module: &Module| {
        let groups = module.blocks("resource").filter(|block| label(block, 0).contains("security_group"));
        let invalid_descriptions =
            groups.filter(|block| !text_of(&block.body, "description").chars().all(takes));
        let fault = |block: &Block| format!("{}: {}.{}", module.path, label(block, 0), label(block, 1));
        invalid_descriptions.map(fault).collect::<Vec<_>>()
    };
    modules.iter().flat_map(per_module).collect()
}

#[test]
fn every_balancer_is_protected_and_logs_access() {
    assert_eq!(balancers(&infra()), [""; 0]);
    let faults = balancers(&fixture(r#"resource "aws_lb" "a" { drop_invalid_header_fields = false }"#));
    assert_reported(&faults, "aws_lb.a: `drop_invalid_header_fields` is not true");
    assert_reported(&faults, "aws_lb.a: `desync_mitigation_mode` is not defensive");
    assert_reported(&faults, "aws_lb.a: `enable_deletion_protection` is not set");
    assert_reported(&faults, "aws_lb.a has no access log");
}

#[test]
fn every_listener_uses_tls() {
    assert_eq!(listeners(&infra()), [""; 0]);
    let plain = r#"resource "aws_lb_listener" "a" { protocol = "HTTP" }"#;
    let old = r#"
        resource "aws_lb_listener" "b" {
          protocol        = "HTTPS"
          certificate_arn = var.certificate_arn
          ssl_policy      = "ELBSecurityPolicy-2016-08"
        }
    "#;
    assert_reported(&listeners(&fixture(plain)), "aws_lb_listener.a uses HTTP");
    assert_reported(&listeners(&fixture(plain)), "aws_lb_listener.a has no certificate");
    assert_reported(&listeners(&fixture(old)), "aws_lb_listener.b accepts old TLS versions");
}

#[test]
fn every_balancer_has_its_alarms() {
    assert_eq!(unwatched(&infra()), [""; 0]);
    let alone = r#"
        resource "aws_lb" "a" {}
        resource "aws_lb_target_group" "b" {}
        resource "aws_cloudwatch_metric_alarm" "c" {
          metric_name   = "UnHealthyHostCount"
          dimensions    = { TargetGroup = aws_lb_target_group.b.arn_suffix }
          alarm_actions = []
        }
    "#;
    let faults = unwatched(&fixture(alone));
    for (metric, _) in ALARMS {
        assert_reported(&faults, &format!("has no alarm on {metric}"));
    }
}

#[test]
fn every_service_has_an_alarm_on_missing_tasks() {
    assert_eq!(services_without_alarm(&infra()), [""; 0]);
    let alone = r#"
        resource "aws_ecs_service" "a" {}
        resource "aws_cloudwatch_metric_alarm" "b" { alarm_actions = var.alarm_topic_arns }
    "#;
    assert_reported(
        &services_without_alarm(&fixture(alone)),
        "no alarm on missing tasks of aws_ecs_service.a",
    );
}

fn balancers(modules: &[Module]) -> Vec<String> {
    let mut faults = Vec::new();
    for balancer in modules.iter().flat_map(|module| module.resources("aws_lb")) {
        let name = format!("aws_lb.{}", label(balancer, 1));
        let unset = BALANCER_SETTINGS.iter().filter(|(key, wanted)| text_of(&balancer.body, key) != *wanted);
        faults.extend(unset.map(|(key, wanted)| format!("{name}: `{key}` is not {wanted}")));
        if value(&balancer.body, "enable_deletion_protection").is_none() {
            faults.push(format!("{name}: `enable_deletion_protection` is not set"));
        }
        if value_in(&balancer.body, "access_logs", "enabled").and_then(Expression::as_bool) != Some(true) {
            faults.push(format!("{name} has no access log"));
        }
    }
    faults
}

fn listeners(modules: &[Module]) -> Vec<String> {
    let mut faults = Vec::new();
    for listener in modules.iter().flat_map(|module| module.resources("aws_lb_listener")) {
        let name = format!("aws_lb_listener.{}", label(listener, 1));
        let protocol = text_of(&listener.body, "protocol");
        if protocol != "HTTPS" {
            faults.push(format!("{name} uses {protocol}"));
        }
        if value(&listener.body, "certificate_arn").is_none() {
            faults.push(format!("{name} has no certificate"));
        }
        if !text_of(&listener.body, "ssl_policy").starts_with(TLS) {
            faults.push(format!("{name} accepts old TLS versions"));
        }
    }
    faults
}

fn unwatched(modules: &[Module]) -> Vec<String> {
    let mut faults = Vec::new();
    for module in modules {
        for (metric, kind) in ALARMS {
            let names = module.resources(kind).map(|counted| format!("{kind}.{}", label(counted, 1)));
            let alone = names.filter(|name| !has_alarm(module, metric, name));
            faults.extend(alone.map(|name| format!("{name} has no alarm on {metric}")));
        }
    }
    faults
}

fn has_alarm(module: &Module, metric: &str, counted: &str) -> bool {
    module.resources("aws_cloudwatch_metric_alarm").any(|alarm| {
        text_of(&alarm.body, "metric_name") == metric
            && text_of(&alarm.body, "dimensions").contains(&format!("{counted}.arn_suffix"))
            && text_of(&alarm.body, "alarm_actions") == "var.alarm_topic_arns"
    })
}

fn services_without_alarm(modules: &[Module]) -> Vec<String> {
    let mut faults = Vec::new();
    for module in modules {
        let names = module
            .resources("aws_ecs_service")
            .map(|service| format!("aws_ecs_service.{}", label(service, 1)));
        let alone = names.filter(|name| !has_missing_task_alarm(module, name));
        faults.extend(alone.map(|name| format!("{}: no alarm on missing tasks of {name}", module.path)));
    }
    faults
}

/// Whether an alarm compares the running with the desired task count of the service.
fn has_missing_task_alarm(module: &Module, service: &str) -> bool {
    module.resources("aws_cloudwatch_metric_alarm").any(|alarm| {
        let written = alarm.body.to_string();
        let compares = ["\"DesiredTaskCount\"", "\"RunningTaskCount\"", service]
            .iter()
            .all(|part| written.contains(part));
        compares && text_of(&alarm.body, "alarm_actions") == "var.alarm_topic_arns"
    })
}
