//! The section `vault` of the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use domain::{SecretRef, TenantId};
use serde::Deserialize;
use url::Url;

/// A server of HashiCorp Vault or OpenBao.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultConfig {
    /// `https://vault.example:8200`
    pub address: Url,
    /// How this process logs in.
    pub auth: VaultAuth,
    /// The namespace of every tenant that `tenants` does not list; the root namespace, if absent.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The namespace of the login, if it is not that of the secrets: a parent of all of them.
    #[serde(default)]
    pub login_namespace: Option<String>,
    /// Tenants with a namespace or a login of their own. If it lists any tenant, others are refused.
    #[serde(default)]
    pub tenants: BTreeMap<TenantId, VaultTenant>,
    /// The engines of mounts. The engine of others follows from the name: `database` and `aws` are dynamic, and the first
    /// part of every other path is the mount of a key-value engine.
    #[serde(default)]
    pub mounts: BTreeMap<String, VaultEngine>,
    /// Certificates, as PEM, that replace those of the operating system.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
}

/// What one tenant has in place of the common settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultTenant {
    /// The namespace of its secrets.
    pub namespace: String,
    /// A login of its own, in its namespace, whose policies give access to its secrets alone.
    #[serde(default)]
    pub auth: Option<VaultAuth>,
}

/// How this process logs in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum VaultAuth {
    /// A role id, and a secret id from `env://` or `file://`, which is read at every login.
    #[serde(rename = "approle")]
    AppRole {
        role_id: String,
        secret_id: SecretRef,
        #[serde(default = "approle")]
        mount: String,
    },
    /// The AWS identity of this process, proven by a signed `sts:GetCallerIdentity`.
    AwsIam {
        role: String,
        /// The region of STS; the global endpoint, if absent.
        #[serde(default)]
        region: Option<String>,
        /// The value of `iam_server_id_header_value` in Vault's configuration of the mount.
        #[serde(default)]
        server_id: Option<String>,
        #[serde(default = "aws")]
        mount: String,
    },
    /// The Kubernetes service account of this process.
    Kubernetes {
        role: String,
        #[serde(default = "service_account_token")]
        jwt_file: PathBuf,
        #[serde(default = "kubernetes")]
        mount: String,
    },
}

fn approle() -> String {
    "approle".to_owned()
}

fn aws() -> String {
    "aws".to_owned()
}

fn kubernetes() -> String {
    "kubernetes".to_owned()
}

fn service_account_token() -> PathBuf {
    "/var/run/secrets/kubernetes.io/serviceaccount/token".into()
}

/// A secrets engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VaultEngine {
    /// Version 2 of the key-value engine.
    KvV2,
    /// An engine that creates credentials with a lease, such as `database` and `aws`.
    Dynamic,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(yaml: &str) -> Result<VaultConfig, String> {
        serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
    }

    #[test]
    fn configuration_is_read_from_yaml() {
        let config = parse(
            "
address: https://vault.example:8200
auth:
  approle: { role_id: r1, secret_id: env://VAULT_SECRET_ID }
ca_file: /etc/countersign/vault-ca.pem
mounts: { team/pg: dynamic, team/kv: kv-v2 }
tenants:
  acme: { namespace: acme/ }
  globex: { namespace: globex, auth: { kubernetes: { role: countersign } } }
",
        )
        .unwrap();
        let VaultAuth::AppRole { role_id, secret_id, mount } = &config.auth else { panic!("{config:?}") };
        assert_eq!(
            (role_id.as_str(), secret_id.as_str(), mount.as_str()),
            ("r1", "env://VAULT_SECRET_ID", "approle")
        );
        assert_eq!(config.mounts["team/pg"], VaultEngine::Dynamic);
        let own = config.tenants[&"globex".parse().unwrap()].auth.clone();
        assert!(matches!(own, Some(VaultAuth::Kubernetes { mount, .. }) if mount == "kubernetes"));
    }

    #[test]
    fn iam_login_has_optional_settings() {
        let config =
            parse("{ address: 'https://v', auth: { aws_iam: { role: worker, server_id: vault.example } } }");
        let expected = VaultAuth::AwsIam {
            role: "worker".to_owned(),
            region: None,
            server_id: Some("vault.example".to_owned()),
            mount: "aws".to_owned(),
        };
        assert_eq!(config.unwrap().auth, expected);
    }

    #[test]
    fn unknown_or_literal_settings_are_refused() {
        let error = parse("{ address: 'https://v', auth: { approle: { role_id: r, secret_id: hunter2 } } }");
        let error = error.unwrap_err();
        assert!(error.contains("named by a reference"), "{error}");
        for yaml in [
            "{ address: 'https://v', auth: { approle: { role_id: r, secret_id: 'env://A', token: t } } }",
            "{ address: 'https://v', token: t, auth: { kubernetes: { role: r } } }",
            "{ address: 'https://v', auth: { kubernetes: { role: r } }, tenants: { a: { namespaces: a } } }",
        ] {
            assert!(parse(yaml).is_err(), "{yaml}");
        }
    }
}
