//! The listening socket of a server.

use std::io;
use std::net::SocketAddr;

use api::auth::session::CookieSecurity;
use tokio::net::TcpListener;

use crate::error::CliError;

/// How browsers reach a server on `address`. Keys and sessions are sent to it, so other machines must use TLS.
pub(crate) fn cookie_security(address: SocketAddr, behind_tls: bool) -> Result<CookieSecurity, CliError> {
    if behind_tls {
        return Ok(CookieSecurity::Https);
    }
    if address.ip().is_loopback() {
        return Ok(CookieSecurity::Loopback);
    }
    Err(CliError::Usage(format!(
        "{address} is reachable from other machines and would receive API keys unencrypted; put a proxy or load \
         balancer that terminates TLS in front of it and add --behind-tls, or listen on 127.0.0.1"
    )))
}

/// Binds `address`, which `option` sets, for `what`.
pub(crate) async fn bind(
    address: SocketAddr,
    option: &str,
    what: &'static str,
) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => CliError::Usage(format!(
            "{address} is already in use; choose another address with {option}, or port 0 for a free one"
        )),
        io::ErrorKind::AddrNotAvailable => CliError::Usage(format!(
            "{address} is not an address of this machine; choose another with {option}"
        )),
        _ => CliError::Start { what, source: error },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_address_requires_tls() {
        for (address, plain) in [
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("0.0.0.0:1", false),
            ("10.0.0.7:1", false),
            ("[::]:1", false),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(
                cookie_security(address, false).ok(),
                plain.then_some(CookieSecurity::Loopback),
                "{address}"
            );
            assert_eq!(cookie_security(address, true).unwrap(), CookieSecurity::Https);
        }
    }
}
