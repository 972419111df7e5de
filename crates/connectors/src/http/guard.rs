//! Decides which addresses a request may reach.
//!
//! A host is resolved once and rejected unless every address is global unicast. The request then uses exactly those
//! addresses, so a later DNS answer changes nothing. The operator can allow internal hosts by name. Cloud metadata and
//! other blocked addresses stay blocked even for those. Ports of mail, shell, database and other services that do not
//! speak HTTP are refused, unless the operator allows the host with the port.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use url::{Host, Url};

use super::address::{AddressScope, scope_of};

/// A host has a handful of addresses; trying more would only waste time.
pub const ADDRESSES_MAX: usize = 16;

/// Ports of services that do not speak HTTP: the bad ports of the Fetch standard, and ports of databases, caches, queues
/// and remote desktops. A request whose text such a service obeys would act in the name of the worker.
const REFUSED_PORTS: [u16; 97] = [
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104,
    109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 445, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 873, 989, 990, 993, 995, 1433, 1521,
    1719, 1720, 1723, 2049, 2375, 3306, 3389, 3659, 4045, 4190, 5060, 5061, 5432, 5672, 5900, 6000, 6379,
    6380, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 9042, 10080, 11211, 27017,
];

/// The hosts that may have internal addresses, by the name in the URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostAllowList {
    pub hosts: Vec<HostRule>,
}

impl HostAllowList {
    /// Whether a rule matches the host of `url`, and the port if the rule has one.
    pub fn matches(&self, url: &Url) -> bool {
        self.hosts.iter().any(|rule| rule.matches(url))
    }

    /// Whether a rule names the host and the port of `url`.
    fn matches_port(&self, url: &Url) -> bool {
        self.hosts.iter().any(|rule| rule.port.is_some() && rule.matches(url))
    }
}

/// A host that may have internal addresses: `svc.internal`, `localhost:8080`, `10.0.0.5`, `[fd12::1]:443`. `*.acme.internal`
/// stands for every name below `acme.internal`.
///
/// The rule matches the host as written in the URL. A rule for a name does not allow a URL with the address of that
/// name, and vice versa.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    host: HostPattern,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    Host(Host),
    /// Every name below this one.
    Below(String),
}

impl HostRule {
    pub(crate) fn from_url(url: &Url) -> Option<Self> {
        let host = HostPattern::Host(url.host()?.to_owned());
        Some(Self { host, port: Some(url.port_or_known_default()?) })
    }

    fn matches(&self, url: &Url) -> bool {
        let host = match (&self.host, url.host()) {
            (HostPattern::Host(own), Some(host)) => host.to_owned() == *own,
            (HostPattern::Below(own), Some(Host::Domain(name))) => {
                name.strip_suffix(own.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            (HostPattern::Below(_), Some(_)) | (_, None) => false,
        };
        host && self.port.is_none_or(|port| url.port_or_known_default() == Some(port))
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HostPattern::Host(host) => write!(f, "{host}")?,
            HostPattern::Below(name) => write!(f, "*.{name}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHostRule {
    #[error("{text:?} is not a host; write `svc.internal`, `localhost:8080` or `[fd12::1]:443`")]
    Host {
        text: String,
        #[source]
        source: url::ParseError,
    },
    #[error("{text:?} is not a pattern; write `*.` and a name with a dot, such as `*.acme.internal`")]
    Pattern { text: String },
    #[error("{text:?} has an invalid port; write a number from 1 to 65535")]
    Port { text: String },
}

impl FromStr for HostRule {
    type Err = InvalidHostRule;

    fn from_str(text: &str) -> Result<Self, InvalidHostRule> {
        let (host, port) = match text.rsplit_once(':') {
            // In a bare `[fd12::1]` the last colon belongs to the address.
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            Some(_) | None => (text, None),
        };
        let pattern = || InvalidHostRule::Pattern { text: text.to_owned() };
        let parse = |host| {
            Host::parse(host).map_err(|source| InvalidHostRule::Host { text: text.to_owned(), source })
        };
        let host = match host.strip_prefix("*.") {
            Some(below) => match parse(below).map_err(|_| pattern())? {
                Host::Domain(name) if name.contains('.') && !name.contains('*') => HostPattern::Below(name),
                Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_) => return Err(pattern()),
            },
            None if host.contains('*') => return Err(pattern()),
            None => HostPattern::Host(parse(host)?),
        };
        match port.map(str::parse).transpose() {
            Ok(port) if port != Some(0) => Ok(Self { host, port }),
            Ok(_) | Err(_) => Err(InvalidHostRule::Port { text: text.to_owned() }),
        }
    }
}

#[async_trait]
pub trait Resolve: Send + Sync {
    /// All addresses of the host `name`.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Resolves names with the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Why a request to a URL is never sent.
///
/// The message does not contain the address: a workflow author must not learn what an internal name resolves to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefused {
    #[error("the scheme `{scheme}` is not allowed; only http and https are")]
    Scheme { scheme: String },
    #[error("the URL contains a user name or password before its host, which is not allowed")]
    UserInfo,
    #[error("the URL has no host")]
    NoHost,
    /// The port is one of a service that does not speak HTTP, and no rule names it.
    #[error(
        "port {port} belongs to a service that does not speak HTTP; an operator can allow the host with this port"
    )]
    Port { port: u16 },
    /// The address is internal and the host is not in the allow list.
    #[error("`{host}` resolves to {what}; an operator can allow this host by name")]
    Internal {
        /// The host as written in the URL.
        host: String,
        /// The kind of address.
        what: &'static str,
    },
    /// The address is blocked, even for hosts in the allow list.
    #[error("`{host}` resolves to {what}, which is never allowed")]
    Blocked {
        /// The host as written in the URL.
        host: String,
        /// The kind of address.
        what: &'static str,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error(transparent)]
    AddressRefused(#[from] AddressRefused),
    /// The name could not be resolved. A retry may succeed.
    #[error("resolve `{host}`")]
    Resolve {
        /// The host as written in the URL.
        host: String,
        #[source]
        source: io::Error,
    },
    /// The name has no address. A retry may succeed.
    #[error("`{host}` has no address")]
    NoRecord {
        /// The host as written in the URL.
        host: String,
    },
}

#[derive(Clone)]
pub struct AddressGuard {
    allow: HostAllowList,
    resolver: Arc<dyn Resolve>,
}

impl fmt::Debug for AddressGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressGuard").field("allow", &self.allow).finish_non_exhaustive()
    }
}

impl AddressGuard {
    pub fn new(allow: HostAllowList, resolver: impl Resolve + 'static) -> Self {
        Self { allow, resolver: Arc::new(resolver) }
    }

    /// Checks everything that needs no DNS resolution, before approvers are asked.
    pub fn check(&self, url: &Url) -> Result<(), AddressRefused> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(AddressRefused::Scheme { scheme: url.scheme().to_owned() });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressRefused::UserInfo);
        }
        let host = url.host().ok_or(AddressRefused::NoHost)?;
        if let Some(port) = url.port().filter(|port| REFUSED_PORTS.contains(port))
            && !self.allow.matches_port(url)
        {
            return Err(AddressRefused::Port { port });
        }
        match host {
            Host::Domain(_) => Ok(()),
            Host::Ipv4(address) => self.check_address(url, address.into()),
            Host::Ipv6(address) => self.check_address(url, address.into()),
        }
    }

    /// Resolves the host and returns the only addresses that the request may use.
    pub async fn admit(&self, url: &Url) -> Result<Vec<SocketAddr>, AddressError> {
        self.check(url)?;
        let addresses = self.resolve(url).await?;
        addresses.iter().try_for_each(|address| self.check_address(url, *address))?;
        if addresses.is_empty() {
            return Err(AddressError::NoRecord { host: host_of(url) });
        }
        let port = url.port_or_known_default().unwrap_or_default();
        Ok(addresses.into_iter().take(ADDRESSES_MAX).map(|address| SocketAddr::new(address, port)).collect())
    }

    async fn resolve(&self, url: &Url) -> Result<Vec<IpAddr>, AddressError> {
        match url.host().ok_or(AddressRefused::NoHost)? {
            Host::Ipv4(address) => Ok(vec![address.into()]),
            Host::Ipv6(address) => Ok(vec![address.into()]),
            Host::Domain(name) => {
                let found = self.resolver.addresses(name).await;
                found.map_err(|source| AddressError::Resolve { host: host_of(url), source })
            }
        }
    }

    fn check_address(&self, url: &Url, address: IpAddr) -> Result<(), AddressRefused> {
        match scope_of(address) {
            AddressScope::Global => Ok(()),
            AddressScope::Internal(_) if self.allow.matches(url) => Ok(()),
            AddressScope::Internal(what) => Err(AddressRefused::Internal { host: host_of(url), what }),
            AddressScope::Blocked(what) => Err(AddressRefused::Blocked { host: host_of(url), what }),
        }
    }
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct FixedResolver(Vec<&'static str>);

    #[async_trait]
    impl Resolve for FixedResolver {
        async fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            Ok(self.0.iter().map(|text| text.parse().unwrap()).collect())
        }
    }

    fn guard(rules: &[&str], answers: &[&'static str]) -> AddressGuard {
        let hosts = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        AddressGuard::new(HostAllowList { hosts }, FixedResolver(answers.to_vec()))
    }

    async fn admit(guard: &AddressGuard, url: &str) -> Result<Vec<SocketAddr>, String> {
        guard.admit(&url.parse().unwrap()).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn public_host_is_pinned_to_its_addresses() {
        let guard = guard(&[], &["1.1.1.1", "2606:4700::1"]);
        let pinned = admit(&guard, "https://example.com/a").await.unwrap();
        assert_eq!(pinned, ["1.1.1.1:443".parse().unwrap(), "[2606:4700::1]:443".parse().unwrap()]);
        assert_eq!(admit(&guard, "http://example.com:81/").await.unwrap()[0].port(), 81);
    }

    #[tokio::test]
    async fn ports_of_other_protocols_are_refused() {
        assert!(REFUSED_PORTS.is_sorted());
        let guard = guard(&["svc.internal", "mail.internal:25"], &["1.1.1.1"]);
        for port in [22, 25, 6379] {
            for host in ["example.com", "svc.internal", "1.1.1.1"] {
                let refused = admit(&guard, &format!("http://{host}:{port}/")).await.unwrap_err();
                assert!(refused.starts_with(&format!("port {port} belongs to")), "{refused}");
            }
        }
        assert!(admit(&guard, "http://mail.internal:25/").await.is_ok());
        for url in ["http://example.com:8080/", "https://example.com/", "http://example.com:9200/"] {
            assert!(admit(&guard, url).await.is_ok(), "{url}");
        }
    }

    #[tokio::test]
    async fn one_internal_address_rejects_the_host() {
        let refused = admit(&guard(&[], &["1.1.1.1", "10.0.0.5"]), "https://example.com/").await.unwrap_err();
        assert_eq!(
            refused,
            "`example.com` resolves to a private address; an operator can allow this host by name"
        );
    }

    #[tokio::test]
    async fn error_does_not_contain_the_address() {
        for answer in ["10.1.2.3", "169.254.169.254"] {
            let refused = admit(&guard(&[], &[answer]), "https://example.com/").await.unwrap_err();
            assert!(!refused.contains(answer), "{refused}");
        }
    }

    #[tokio::test]
    async fn allow_list_matches_the_exact_name() {
        let guard = guard(&["svc.internal:8080"], &["10.0.0.5"]);
        assert!(admit(&guard, "http://SVC.internal:8080/").await.is_ok());
        for other in ["http://svc.internal/", "http://svc.internal.:8080/", "http://10.0.0.5:8080/"] {
            assert!(admit(&guard, other).await.is_err(), "{other}");
        }
        assert!(admit(&guard, "http://sub.svc.internal:8080/").await.is_err());
    }

    #[tokio::test]
    async fn allowed_address_matches_only_as_address() {
        let guard = guard(&["10.0.0.5", "[fd12::1]:8443"], &["10.0.0.5"]);
        assert!(admit(&guard, "http://10.0.0.5:81/").await.is_ok());
        assert!(admit(&guard, "https://[fd12::1]:8443/").await.is_ok());
        assert!(admit(&guard, "https://[fd12::1]/").await.is_err());
        assert!(admit(&guard, "http://svc.internal/").await.is_err());
    }

    #[tokio::test]
    async fn allow_list_does_not_allow_metadata() {
        for address in ["169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23"]
        {
            let guard = guard(&["md.internal"], &[address]);
            let refused = admit(&guard, "http://md.internal/").await.unwrap_err();
            assert_eq!(refused, "`md.internal` resolves to a metadata address, which is never allowed");
        }
        let literal = guard(&["169.254.169.254", "[fd00:ec2::254]"], &[]);
        assert!(admit(&literal, "http://169.254.169.254/").await.is_err());
        assert!(admit(&literal, "http://[fd00:ec2::254]/").await.is_err());
    }

    #[tokio::test]
    async fn alternative_address_spellings_are_recognized() {
        let guard = guard(&[], &[]);
        let spellings =
            ["0x7f.1", "2130706433", "0177.0.0.1", "127.1", "127%2e0%2e0%2e1", "\u{ff11}27.0.0.1"];
        for spelling in spellings {
            let refused = admit(&guard, &format!("http://{spelling}/")).await.unwrap_err();
            assert!(refused.contains("`127.0.0.1` resolves to a loopback address"), "{spelling}: {refused}");
        }
    }

    #[tokio::test]
    async fn name_without_address_is_an_error() {
        assert_eq!(
            admit(&guard(&[], &[]), "http://example.com/").await.unwrap_err(),
            "`example.com` has no address"
        );
    }

    #[test]
    fn host_rule_round_trips() {
        for text in [
            "svc.internal",
            "localhost:80",
            "10.0.0.5:8080",
            "[fd12::1]",
            "[fd12::1]:443",
            "*.acme.internal",
            "*.acme.internal:8443",
        ] {
            assert_eq!(text.parse::<HostRule>().unwrap().to_string(), text);
        }
        for text in ["", "http://a", "a/b", "a:b", "a:0", "a:65536", "fd12::1", "user@host"] {
            assert!(text.parse::<HostRule>().is_err(), "{text:?}");
        }
        for text in ["*", "*.", "*.internal", "*.0.0.10", "*.*.internal", "a.*.internal", "*acme.internal"] {
            assert!(matches!(text.parse::<HostRule>(), Err(InvalidHostRule::Pattern { .. })), "{text:?}");
        }
    }

    #[test]
    fn host_pattern_matches_names_below_it() {
        let matches =
            |rule: &str, url: &str| rule.parse::<HostRule>().unwrap().matches(&url.parse::<Url>().unwrap());
        for url in ["https://a.acme.internal", "https://b.a.ACME.internal:8443/path"] {
            assert!(matches("*.acme.internal", url), "{url}");
        }
        for url in [
            "https://acme.internal",
            "https://evilacme.internal",
            "https://.acme.internal",
            "https://a.acme.internal.evil.example",
            "https://10.0.0.5",
        ] {
            assert!(!matches("*.acme.internal", url), "{url}");
        }
        assert!(matches("*.acme.internal:8443", "https://a.acme.internal:8443"));
        assert!(!matches("*.acme.internal:8443", "https://a.acme.internal"));
    }
}
