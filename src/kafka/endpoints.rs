//! The brokers that clients are told about.

use std::net::{IpAddr, SocketAddr};

/// One broker as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The member's number on the Kafka wire.
    pub broker: i32,
    /// Host, never a wildcard.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// Host and port for a client that reached us at `reached`: `--kafka-advertise` where given.
pub fn advertised(configured: Option<&(String, u16)>, reached: SocketAddr) -> (String, u16) {
    match configured {
        Some((host, port)) => (host.clone(), *port),
        // An accepted socket's local address is the one the client reached, never the wildcard listened on. IPv4 through
        // an IPv6 socket shows as ::ffff:a.b.c.d, which an IPv4 client could not use.
        None => (canonical(reached.ip()).to_string(), reached.port()),
    }
}

/// The address without IPv6's mapping of IPv4.
pub fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reached_address_unless_told() {
        let reached = "[::ffff:10.1.2.3]:9092".parse().unwrap();
        assert_eq!(advertised(None, reached), ("10.1.2.3".into(), 9092));
        let told = ("kafka.example".to_owned(), 19092);
        assert_eq!(advertised(Some(&told), reached), told);
    }
}
