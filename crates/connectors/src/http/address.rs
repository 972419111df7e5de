//! Classifies IP addresses as global, internal or blocked.
//!
//! Two tables, more specific rows first; the first match decides. An IPv6 address that embeds an IPv4 address is
//! classified by the embedded address if packets really go there, and blocked if only obsolete tunnels would carry them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressScope {
    /// Global unicast: a host on the internet.
    Global,
    /// This machine or a private network. Allowed only for hosts in the operator's allow list.
    Internal(&'static str),
    /// Never allowed: cloud metadata, multicast, reserved ranges.
    Blocked(&'static str),
}

use AddressScope::{Blocked, Global, Internal};

const METADATA: AddressScope = Blocked("a metadata address");
const LINK_LOCAL: AddressScope = Blocked("a link-local address");
const DOCUMENTATION: AddressScope = Blocked("an address for documentation");
const RESERVED: AddressScope = Blocked("a reserved address");
const PRIVATE: AddressScope = Internal("a private address");
const LOOPBACK: AddressScope = Internal("a loopback address");

/// Mostly the IANA registry of special-purpose addresses. All of 169.254/16 is blocked: besides instance metadata
/// (.169.254) it contains container credentials (.170.2, .170.23).
const V4: &[([u8; 4], u32, AddressScope)] = &[
    // Metadata outside the link-local block: Alibaba, Oracle, Azure.
    ([100, 100, 100, 200], 32, METADATA),
    ([192, 0, 0, 192], 32, METADATA),
    ([168, 63, 129, 16], 32, METADATA),
    ([169, 254, 169, 254], 32, METADATA),
    ([169, 254, 170, 2], 32, METADATA),
    ([169, 254, 170, 23], 32, METADATA),
    ([169, 254, 0, 0], 16, LINK_LOCAL),
    ([0, 0, 0, 0], 8, Blocked("a this-network address")),
    ([127, 0, 0, 0], 8, LOOPBACK),
    ([10, 0, 0, 0], 8, PRIVATE),
    ([172, 16, 0, 0], 12, PRIVATE),
    ([192, 168, 0, 0], 16, PRIVATE),
    ([100, 64, 0, 0], 10, Internal("a carrier-grade NAT address")),
    ([192, 0, 0, 0], 24, RESERVED),
    ([192, 0, 2, 0], 24, DOCUMENTATION),
    ([198, 51, 100, 0], 24, DOCUMENTATION),
    ([203, 0, 113, 0], 24, DOCUMENTATION),
    ([192, 88, 99, 0], 24, RESERVED),
    ([198, 18, 0, 0], 15, Blocked("an address for benchmarks")),
    ([224, 0, 0, 0], 4, Blocked("a multicast address")),
    ([255, 255, 255, 255], 32, Blocked("the broadcast address")),
    ([240, 0, 0, 0], 4, RESERVED),
    ([0, 0, 0, 0], 0, Global),
];

/// Only `2000::/3` is global unicast; its exceptions come first.
const V6: &[([u16; 8], u32, AddressScope)] = &[
    // Metadata in the private block: AWS (all of fd00:ec2::/32), Google, Oracle, Scaleway.
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32, METADATA),
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, METADATA),
    ([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128, METADATA),
    ([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128, METADATA),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, LOOPBACK),
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, Blocked("the unspecified address")),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, PRIVATE),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, LINK_LOCAL),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Blocked("a site-local address")),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Blocked("a multicast address")),
    // Teredo, benchmarks, ORCHID and other IETF protocol assignments.
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, RESERVED),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, DOCUMENTATION),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, DOCUMENTATION),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Blocked("a 6to4 address")),
    ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, Global),
    ([0, 0, 0, 0, 0, 0, 0, 0], 0, RESERVED),
];

pub fn scope_of(address: IpAddr) -> AddressScope {
    match address {
        IpAddr::V4(address) => scope_v4(address),
        IpAddr::V6(address) => embedded_v4(address).map_or_else(|| scope_v6(address), scope_v4),
    }
}

fn scope_v4(address: Ipv4Addr) -> AddressScope {
    let bits = address.to_bits();
    let row = V4.iter().find(|(net, length, _)| (bits ^ u32::from_be_bytes(*net)).leading_zeros() >= *length);
    row.map_or(RESERVED, |(_, _, scope)| *scope)
}

fn scope_v6(address: Ipv6Addr) -> AddressScope {
    let bits = address.to_bits();
    let row =
        V6.iter().find(|(net, length, _)| (bits ^ Ipv6Addr::from(*net).to_bits()).leading_zeros() >= *length);
    row.map_or(RESERVED, |(_, _, scope)| *scope)
}

/// The IPv4 address that packets to `address` reach: the kernel translates `::ffff:0:0/96`, and a NAT64 gateway
/// translates `64:ff9b::/96`.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(text: &str) -> AddressScope {
        scope_of(text.parse().unwrap())
    }

    fn assert_all(texts: &[&str], expected: fn(AddressScope) -> bool) {
        for text in texts {
            assert!(expected(scope(text)), "{text} is {:?}", scope(text));
        }
    }

    fn is_internal(scope: AddressScope) -> bool {
        matches!(scope, Internal(_))
    }

    fn is_blocked(scope: AddressScope) -> bool {
        matches!(scope, Blocked(_))
    }

    #[test]
    fn internet_hosts_are_global() {
        let v4 = ["1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"];
        assert_all(&v4, |scope| scope == Global);
        let v4 =
            ["128.0.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "198.20.0.0", "223.255.255.255"];
        assert_all(&v4, |scope| scope == Global);
        assert_all(&["2606:4700:4700::1111", "2a00:1450::1", "2001:200::1", "3ffe:ffff::1"], |scope| {
            scope == Global
        });
    }

    #[test]
    fn loopback_and_private_networks_are_internal() {
        assert_all(&["127.0.0.1", "127.255.255.255", "10.0.0.0", "10.255.255.255"], is_internal);
        assert_all(
            &["172.16.0.0", "172.31.255.255", "192.168.0.1", "100.64.0.0", "100.127.255.255"],
            is_internal,
        );
        assert_all(&["::1", "fc00::1", "fd12:3456::1", "fdff:ffff::1"], is_internal);
    }

    #[test]
    fn metadata_is_blocked() {
        assert_all(&["169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200"], is_blocked);
        assert_all(
            &["192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"],
            is_blocked,
        );
    }

    #[test]
    fn special_purpose_addresses_are_blocked() {
        assert_all(&["0.0.0.0", "0.1.2.3", "169.254.0.1", "192.0.0.1", "192.88.99.1"], is_blocked);
        assert_all(&["192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "198.19.255.255"], is_blocked);
        assert_all(
            &["224.0.0.1", "239.255.255.255", "240.0.0.1", "254.0.0.1", "255.255.255.255"],
            is_blocked,
        );
        assert_all(
            &["::", "fe80::1", "febf::1", "fec0::1", "ff02::1", "100::1", "4000::1", "5f00::1"],
            is_blocked,
        );
        assert_all(&["2001:db8::1", "3fff:0fff::1", "2001:2::1", "2001:10::1", "64:ff9b:1::1"], is_blocked);
    }

    #[test]
    fn embedded_v4_is_classified_by_destination() {
        assert_all(
            &["::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1"],
            is_internal,
        );
        assert_all(&["::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "::ffff:0.0.0.0"], is_blocked);
        assert_all(&["::ffff:1.1.1.1", "64:ff9b::1.1.1.1"], |scope| scope == Global);
    }

    #[test]
    fn obsolete_tunnels_are_blocked() {
        assert_all(&["::127.0.0.1", "::10.0.0.1", "::1.1.1.1"], is_blocked);
        assert_all(&["2002:7f00:1::1", "2002:a9fe:a9fe::1", "2002:101:101::1"], is_blocked);
        assert_all(&["2001::1", "2001:0:a9fe:a9fe::1"], is_blocked);
    }
}
