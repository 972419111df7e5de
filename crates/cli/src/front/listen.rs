//! Where a server listens.

use std::io;
use std::net::SocketAddr;

use api::auth::session::Over;
use tokio::net::TcpListener;

use crate::error::CliError;

/// How browsers reach a server that listens at `address`. Keys and sessions are sent to it, so other machines reach it
/// through TLS or not at all.
pub(crate) fn over(address: SocketAddr, behind_tls: bool) -> Result<Over, CliError> {
    if behind_tls {
        return Ok(Over::Https);
    }
    if address.ip().is_loopback() {
        return Ok(Over::Loopback);
    }
    Err(CliError::Usage(format!(
        "other machines reach {address}, and keys would go there in the clear; put a proxy or load balancer before it \
         that ends TLS and say so with --behind-tls, or listen on 127.0.0.1"
    )))
}

/// Listens at `address`, which `option` names, for `what`.
pub(crate) async fn bound(
    address: SocketAddr,
    option: &str,
    what: &'static str,
) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => CliError::Usage(format!(
            "{address} is taken; name another address with {option}, or port 0 for any that is free"
        )),
        io::ErrorKind::AddrNotAvailable => {
            CliError::Usage(format!("{address} is not of this machine; name another with {option}"))
        }
        _ => CliError::Start { what, source: error },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_are_listened_to_only_behind_tls() {
        for (address, plain) in [
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("0.0.0.0:1", false),
            ("10.0.0.7:1", false),
            ("[::]:1", false),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(over(address, false).ok(), plain.then_some(Over::Loopback), "{address}");
            assert_eq!(over(address, true).unwrap(), Over::Https);
        }
    }
}
