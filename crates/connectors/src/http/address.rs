//! Which addresses lead out, which lead in, and which lead nowhere good.
//!
//! Two tables, the more exact row first; the first row that fits decides. An address that merely carries an
//! address of version 4 is judged by the one it carries where packets really go there, and refused where only
//! abandoned tunnels would take it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Global unicast: a host on the internet.
    Global,
    /// A host of ours, on this machine or in this network. Only for hosts that the operator names.
    Inside(&'static str),
    /// Nothing a workflow may ever ask: a platform's metadata, everybody, nobody.
    Never(&'static str),
}

use Reach::{Global, Inside, Never};

const METADATA: Reach = Never("a metadata address");
const LINK_LOCAL: Reach = Never("a link-local address");
const DOCUMENTATION: Reach = Never("an address for documentation");
const RESERVED: Reach = Never("a reserved address");
const PRIVATE: Reach = Inside("a private address");
const LOOPBACK: Reach = Inside("a loopback address");

/// Most of it is the IANA registry of special-purpose addresses. All of 169.254/16 is out: beside the
/// instance metadata (.169.254) there are container credentials (.170.2, .170.23) and the like.
const V4: &[([u8; 4], u32, Reach)] = &[
    // Metadata outside of the link-local block: Alibaba, Oracle, and Azure's in the midst of the internet.
    ([100, 100, 100, 200], 32, METADATA),
    ([192, 0, 0, 192], 32, METADATA),
    ([168, 63, 129, 16], 32, METADATA),
    ([169, 254, 169, 254], 32, METADATA),
    ([169, 254, 170, 2], 32, METADATA),
    ([169, 254, 170, 23], 32, METADATA),
    ([169, 254, 0, 0], 16, LINK_LOCAL),
    ([0, 0, 0, 0], 8, Never("an address of this network")),
    ([127, 0, 0, 0], 8, LOOPBACK),
    ([10, 0, 0, 0], 8, PRIVATE),
    ([172, 16, 0, 0], 12, PRIVATE),
    ([192, 168, 0, 0], 16, PRIVATE),
    ([100, 64, 0, 0], 10, Inside("an address behind a carrier's translation")),
    ([192, 0, 0, 0], 24, RESERVED),
    ([192, 0, 2, 0], 24, DOCUMENTATION),
    ([198, 51, 100, 0], 24, DOCUMENTATION),
    ([203, 0, 113, 0], 24, DOCUMENTATION),
    ([192, 88, 99, 0], 24, RESERVED),
    ([198, 18, 0, 0], 15, Never("an address for benchmarks")),
    ([224, 0, 0, 0], 4, Never("a multicast address")),
    ([255, 255, 255, 255], 32, Never("the broadcast address")),
    ([240, 0, 0, 0], 4, RESERVED),
    ([0, 0, 0, 0], 0, Global),
];

/// Only `2000::/3` is given out for global unicast; the holes in it come first.
const V6: &[([u16; 8], u32, Reach)] = &[
    // Metadata in the private block: AWS keeps the whole fd00:ec2::/32, then Google, Oracle, Scaleway.
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32, METADATA),
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, METADATA),
    ([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128, METADATA),
    ([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128, METADATA),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, LOOPBACK),
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, Never("the unspecified address")),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, PRIVATE),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, LINK_LOCAL),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Never("a site-local address")),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Never("a multicast address")),
    // Teredo, benchmarks, ORCHID and what else the IETF keeps for protocols.
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, RESERVED),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, DOCUMENTATION),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, DOCUMENTATION),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Never("a 6to4 address")),
    ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, Global),
    ([0, 0, 0, 0, 0, 0, 0, 0], 0, RESERVED),
];

/// Where `address` leads.
pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => carried_v4(address).map_or_else(|| reach_v6(address), reach_v4),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let bits = address.to_bits();
    let row = V4.iter().find(|(net, length, _)| (bits ^ u32::from_be_bytes(*net)).leading_zeros() >= *length);
    row.map_or(RESERVED, |(_, _, reach)| *reach)
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let bits = address.to_bits();
    let row =
        V6.iter().find(|(net, length, _)| (bits ^ Ipv6Addr::from(*net).to_bits()).leading_zeros() >= *length);
    row.map_or(RESERVED, |(_, _, reach)| *reach)
}

/// The address of version 4 that packets to `address` really reach: the kernel sends to it for `::ffff:0:0/96`, a
/// translator for `64:ff9b::/96`, which is how an IPv6-only network reaches half of the internet.
fn carried_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
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

    fn reach_of(text: &str) -> Reach {
        reach(text.parse().unwrap())
    }

    fn all(texts: &[&str], expected: fn(Reach) -> bool) {
        for text in texts {
            assert!(expected(reach_of(text)), "{text} is {:?}", reach_of(text));
        }
    }

    fn is_inside(reach: Reach) -> bool {
        matches!(reach, Inside(_))
    }

    fn is_never(reach: Reach) -> bool {
        matches!(reach, Never(_))
    }

    #[test]
    fn hosts_on_the_internet_are_global() {
        let v4 = ["1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"];
        all(&v4, |reach| reach == Global);
        let v4 =
            ["128.0.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "198.20.0.0", "223.255.255.255"];
        all(&v4, |reach| reach == Global);
        all(&["2606:4700:4700::1111", "2a00:1450::1", "2001:200::1", "3ffe:ffff::1"], |reach| {
            reach == Global
        });
    }

    #[test]
    fn this_machine_and_this_network_are_inside() {
        all(&["127.0.0.1", "127.255.255.255", "10.0.0.0", "10.255.255.255"], is_inside);
        all(&["172.16.0.0", "172.31.255.255", "192.168.0.1", "100.64.0.0", "100.127.255.255"], is_inside);
        all(&["::1", "fc00::1", "fd12:3456::1", "fdff:ffff::1"], is_inside);
    }

    #[test]
    fn metadata_is_out_of_reach() {
        all(&["169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200"], is_never);
        all(&["192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"], is_never);
    }

    #[test]
    fn what_is_no_single_host_on_the_internet_is_out_of_reach() {
        all(&["0.0.0.0", "0.1.2.3", "169.254.0.1", "192.0.0.1", "192.88.99.1"], is_never);
        all(&["192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "198.19.255.255"], is_never);
        all(&["224.0.0.1", "239.255.255.255", "240.0.0.1", "254.0.0.1", "255.255.255.255"], is_never);
        all(&["::", "fe80::1", "febf::1", "fec0::1", "ff02::1", "100::1", "4000::1", "5f00::1"], is_never);
        all(&["2001:db8::1", "3fff:0fff::1", "2001:2::1", "2001:10::1", "64:ff9b:1::1"], is_never);
    }

    #[test]
    fn an_address_in_an_address_is_judged_by_where_packets_go() {
        all(&["::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1"], is_inside);
        all(&["::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "::ffff:0.0.0.0"], is_never);
        all(&["::ffff:1.1.1.1", "64:ff9b::1.1.1.1"], |reach| reach == Global);
    }

    #[test]
    fn abandoned_tunnels_are_out_of_reach_whatever_they_carry() {
        all(&["::127.0.0.1", "::10.0.0.1", "::1.1.1.1"], is_never);
        all(&["2002:7f00:1::1", "2002:a9fe:a9fe::1", "2002:101:101::1"], is_never);
        all(&["2001::1", "2001:0:a9fe:a9fe::1"], is_never);
    }
}
