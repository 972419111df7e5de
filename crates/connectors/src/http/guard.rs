//! Where a request may go.
//!
//! A host is looked up once, and refused unless every answer is global unicast; the request then goes to
//! those very addresses, so that a second, different answer changes nothing. The operator may name hosts
//! that lead inside. Even for these some addresses, a platform's metadata above all, stay out of reach.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use url::{Host, Url};

use super::address::{Reach, reach};

/// A name has a handful of addresses; past this many, trying one after the other would only waste time.
pub const ADDRESSES_MAX: usize = 16;

/// The hosts that may lead inside, by the name that stands in the URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allow {
    /// One rule for each host.
    pub hosts: Vec<HostRule>,
}

impl Allow {
    /// Whether a rule names the host, and the port if it has one, that stand in `url`.
    pub fn names(&self, url: &Url) -> bool {
        self.hosts.iter().any(|rule| rule.names(url))
    }
}

/// A host that may lead inside: `svc.internal`, `localhost:8080`, `10.0.0.5`, `[fd12::1]:443`.
///
/// The name must be the one that stands in the URL. A rule for a name allows no URL that has its address
/// in place of the name, and the other way round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    host: Host,
    port: Option<u16>,
}

impl HostRule {
    /// The rule for exactly the host and port of `url`.
    pub(crate) fn of(url: &Url) -> Option<Self> {
        Some(Self { host: url.host()?.to_owned(), port: Some(url.port_or_known_default()?) })
    }

    fn names(&self, url: &Url) -> bool {
        let host = url.host().is_some_and(|host| host.to_owned() == self.host);
        host && self.port.is_none_or(|port| url.port_or_known_default() == Some(port))
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => self.host.fmt(f),
        }
    }
}

/// Why a text is not a host rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHostRule {
    /// Its host is none.
    #[error("{text:?} does not name a host; write `svc.internal`, `localhost:8080` or `[fd12::1]:443`")]
    Host {
        /// The text.
        text: String,
        /// Why its host is none.
        #[source]
        source: url::ParseError,
    },
    /// It looks like a pattern.
    #[error("{text:?} is a pattern; a host is allowed by its whole name")]
    Pattern {
        /// The text.
        text: String,
    },
    /// Its port is no number.
    #[error("{text:?} has a port that is no number from 1 to 65535")]
    Port {
        /// The text.
        text: String,
    },
}

impl FromStr for HostRule {
    type Err = InvalidHostRule;

    fn from_str(text: &str) -> Result<Self, InvalidHostRule> {
        if text.contains('*') {
            return Err(InvalidHostRule::Pattern { text: text.to_owned() });
        }
        let (host, port) = match text.rsplit_once(':') {
            // The last colon of a bare `[fd12::1]` is inside of the address.
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            Some(_) | None => (text, None),
        };
        let host =
            Host::parse(host).map_err(|source| InvalidHostRule::Host { text: text.to_owned(), source })?;
        match port.map(str::parse).transpose() {
            Ok(port) if port != Some(0) => Ok(Self { host, port }),
            Ok(_) | Err(_) => Err(InvalidHostRule::Port { text: text.to_owned() }),
        }
    }
}

/// Finds the addresses of a name.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// All addresses of `name`.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Why a request may not go there, however often it is tried.
///
/// The text does not tell the address: what an inner name resolves to is nothing to show to whoever can
/// write a workflow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Neither http nor https.
    #[error("the scheme `{scheme}` is not allowed; only http and https are")]
    Scheme {
        /// What it is instead.
        scheme: String,
    },
    /// A name or password before the host.
    #[error("the URL has a user name or password before its host, which is not allowed")]
    UserInfo,
    /// No host at all.
    #[error("the URL has no host")]
    NoHost,
    /// Inside, and nobody has named the host.
    #[error("`{host}` leads to {what}; an operator can allow this host by name")]
    Inside {
        /// The host as it stands in the URL.
        host: String,
        /// What kind of address it leads to.
        what: &'static str,
    },
    /// Out of reach, whoever names it.
    #[error("`{host}` leads to {what}, which is never allowed")]
    Never {
        /// The host as it stands in the URL.
        host: String,
        /// What kind of address it leads to.
        what: &'static str,
    },
}

/// Why there is no address to send a request to.
#[derive(Debug, thiserror::Error)]
pub enum NoAddress {
    /// It may not go there.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The name could not be looked up; that may mend.
    #[error("look up `{host}`")]
    LookUp {
        /// The host as it stands in the URL.
        host: String,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The name has no address; that may mend.
    #[error("`{host}` has no address")]
    Nowhere {
        /// The host as it stands in the URL.
        host: String,
    },
}

/// Decides where requests may go.
#[derive(Clone)]
pub struct Guard {
    allow: Allow,
    resolver: Arc<dyn Resolve>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("allow", &self.allow).finish_non_exhaustive()
    }
}

impl Guard {
    /// A guard that asks `resolver`.
    pub fn new(allow: Allow, resolver: impl Resolve + 'static) -> Self {
        Self { allow, resolver: Arc::new(resolver) }
    }

    /// Refuses what can be refused without a look-up, so that nobody is asked to approve it.
    pub fn check(&self, url: &Url) -> Result<(), Refused> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Scheme { scheme: url.scheme().to_owned() });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::UserInfo);
        }
        match url.host().ok_or(Refused::NoHost)? {
            Host::Domain(_) => Ok(()),
            Host::Ipv4(address) => self.judge(url, address.into()),
            Host::Ipv6(address) => self.judge(url, address.into()),
        }
    }

    /// The addresses that a request to `url` may be sent to, and to no others.
    pub async fn admit(&self, url: &Url) -> Result<Vec<SocketAddr>, NoAddress> {
        self.check(url)?;
        let addresses = self.look_up(url).await?;
        addresses.iter().try_for_each(|address| self.judge(url, *address))?;
        if addresses.is_empty() {
            return Err(NoAddress::Nowhere { host: host_of(url) });
        }
        let port = url.port_or_known_default().unwrap_or_default();
        Ok(addresses.into_iter().take(ADDRESSES_MAX).map(|address| SocketAddr::new(address, port)).collect())
    }

    async fn look_up(&self, url: &Url) -> Result<Vec<IpAddr>, NoAddress> {
        match url.host().ok_or(Refused::NoHost)? {
            Host::Ipv4(address) => Ok(vec![address.into()]),
            Host::Ipv6(address) => Ok(vec![address.into()]),
            Host::Domain(name) => {
                let found = self.resolver.addresses(name).await;
                found.map_err(|source| NoAddress::LookUp { host: host_of(url), source })
            }
        }
    }

    fn judge(&self, url: &Url, address: IpAddr) -> Result<(), Refused> {
        match reach(address) {
            Reach::Global => Ok(()),
            Reach::Inside(_) if self.allow.names(url) => Ok(()),
            Reach::Inside(what) => Err(Refused::Inside { host: host_of(url), what }),
            Reach::Never(what) => Err(Refused::Never { host: host_of(url), what }),
        }
    }
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Answers(Vec<&'static str>);

    #[async_trait]
    impl Resolve for Answers {
        async fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            Ok(self.0.iter().map(|text| text.parse().unwrap()).collect())
        }
    }

    fn guard(rules: &[&str], answers: &[&'static str]) -> Guard {
        let hosts = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Guard::new(Allow { hosts }, Answers(answers.to_vec()))
    }

    async fn admit(guard: &Guard, url: &str) -> Result<Vec<SocketAddr>, String> {
        guard.admit(&url.parse().unwrap()).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_public_host_is_pinned_to_its_answers() {
        let guard = guard(&[], &["1.1.1.1", "2606:4700::1"]);
        let pinned = admit(&guard, "https://example.com/a").await.unwrap();
        assert_eq!(pinned, ["1.1.1.1:443".parse().unwrap(), "[2606:4700::1]:443".parse().unwrap()]);
        assert_eq!(admit(&guard, "http://example.com:81/").await.unwrap()[0].port(), 81);
    }

    #[tokio::test]
    async fn one_inner_answer_among_public_ones_is_enough_to_refuse() {
        let refused = admit(&guard(&[], &["1.1.1.1", "10.0.0.5"]), "https://example.com/").await.unwrap_err();
        assert_eq!(
            refused,
            "`example.com` leads to a private address; an operator can allow this host by name"
        );
    }

    #[tokio::test]
    async fn a_refusal_does_not_tell_the_address() {
        for answer in ["10.1.2.3", "169.254.169.254"] {
            let refused = admit(&guard(&[], &[answer]), "https://example.com/").await.unwrap_err();
            assert!(!refused.contains(answer), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_named_host_may_lead_inside_under_that_name_only() {
        let guard = guard(&["svc.internal:8080"], &["10.0.0.5"]);
        assert!(admit(&guard, "http://SVC.internal:8080/").await.is_ok());
        for other in ["http://svc.internal/", "http://svc.internal.:8080/", "http://10.0.0.5:8080/"] {
            assert!(admit(&guard, other).await.is_err(), "{other}");
        }
        assert!(admit(&guard, "http://sub.svc.internal:8080/").await.is_err());
    }

    #[tokio::test]
    async fn an_address_is_allowed_only_as_an_address() {
        let guard = guard(&["10.0.0.5", "[fd12::1]:8443"], &["10.0.0.5"]);
        assert!(admit(&guard, "http://10.0.0.5:81/").await.is_ok());
        assert!(admit(&guard, "https://[fd12::1]:8443/").await.is_ok());
        assert!(admit(&guard, "https://[fd12::1]/").await.is_err());
        assert!(admit(&guard, "http://svc.internal/").await.is_err());
    }

    #[tokio::test]
    async fn naming_a_host_does_not_open_the_metadata() {
        for address in ["169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23"]
        {
            let guard = guard(&["md.internal"], &[address]);
            let refused = admit(&guard, "http://md.internal/").await.unwrap_err();
            assert_eq!(refused, "`md.internal` leads to a metadata address, which is never allowed");
        }
        let literal = guard(&["169.254.169.254", "[fd00:ec2::254]"], &[]);
        assert!(admit(&literal, "http://169.254.169.254/").await.is_err());
        assert!(admit(&literal, "http://[fd00:ec2::254]/").await.is_err());
    }

    #[tokio::test]
    async fn an_address_is_recognised_however_it_is_spelled() {
        let guard = guard(&[], &[]);
        let spellings =
            ["0x7f.1", "2130706433", "0177.0.0.1", "127.1", "127%2e0%2e0%2e1", "\u{ff11}27.0.0.1"];
        for spelling in spellings {
            let refused = admit(&guard, &format!("http://{spelling}/")).await.unwrap_err();
            assert!(refused.contains("`127.0.0.1` leads to a loopback address"), "{spelling}: {refused}");
        }
    }

    #[tokio::test]
    async fn a_name_without_address_leads_nowhere() {
        assert_eq!(
            admit(&guard(&[], &[]), "http://example.com/").await.unwrap_err(),
            "`example.com` has no address"
        );
    }

    #[test]
    fn a_rule_reads_as_people_write_it() {
        for text in ["svc.internal", "localhost:80", "10.0.0.5:8080", "[fd12::1]", "[fd12::1]:443"] {
            assert_eq!(text.parse::<HostRule>().unwrap().to_string(), text);
        }
        for text in
            ["", "http://a", "a/b", "a:b", "a:0", "a:65536", "fd12::1", "user@host", "*", "*.internal"]
        {
            assert!(text.parse::<HostRule>().is_err(), "{text:?}");
        }
    }
}
