//! The brokers that clients are told about.
//!
//! Those are the members with a Kafka address: the row's `KAFKA AT`, else what the member says of itself. A lone member
//! is told by the address the client reached unless it was given another. A member without an address (`KAFKA NONE`)
//! leads and coordinates all the same; clients are told of a member in its place, which carries their requests on.

use cluster::catalog::{KafkaAt, Member, Standing, State};
use cluster::ids::{NodeId, RangeId};
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

/// The brokers that one client is told about.
#[derive(Debug)]
pub(crate) struct Brokers {
    listed: Vec<Endpoint>,
}

impl Brokers {
    /// As `node` tells a client that reached it at `reached`.
    pub fn new(state: &State, node: NodeId, configured: Option<&(String, u16)>, reached: SocketAddr) -> Self {
        let members = || {
            state
                .members()
                .filter(|m| m.node.is_some() && m.standing != Standing::Declared)
        };
        let own = |member: &Member| {
            let (host, port) = match &member.kafka {
                KafkaAt::At(address) => address.clone(),
                KafkaAt::Told | KafkaAt::Hidden => advertised(configured, reached),
            };
            endpoint(member, (host, port))
        };
        let mut listed: Vec<Endpoint> = match members().nth(1) {
            Some(_) => members()
                .filter_map(|m| Some(endpoint(m, m.kafka_address()?.clone())))
                .collect(),
            None => Vec::new(),
        };
        if listed.is_empty() {
            // A lone member, or nobody that clients may be told of: then this node answers for all.
            listed.extend(state.member(node).map(|member| own(member)));
        }
        Self { listed }
    }

    /// All of them, by broker id.
    pub fn listed(&self) -> &[Endpoint] {
        &self.listed
    }

    /// The broker that clients are told for what `node` leads: itself, or who stands in for it. The stand-in depends on
    /// nothing but the range and who is listed, so that every member tells the same (a leader epoch has one leader), and
    /// changes only where the stand-in itself goes or a new member takes its share.
    pub fn shown(&self, state: &State, node: NodeId, range: RangeId) -> Option<&Endpoint> {
        let broker = state.member(node)?.broker.0;
        let itself = self.listed.iter().find(|e| e.broker == broker);
        itself.or_else(|| self.listed.iter().max_by_key(|e| weight(range, e.broker)))
    }
}

fn endpoint(member: &Member, (host, port): (String, u16)) -> Endpoint {
    Endpoint {
        broker: member.broker.0,
        host,
        port,
    }
}

/// Rendezvous hashing, with the finaliser of SplitMix64. The same in every version.
fn weight(range: RangeId, broker: i32) -> u64 {
    let mut x = (u64::from(range.0) << 32 | u64::from(broker.unsigned_abs())).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
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

    use cluster::catalog::{Command, MemberCommand, ReplicaChange, ReplicaSpec};

    fn reached() -> SocketAddr {
        "10.1.2.3:9092".parse().unwrap()
    }

    fn alter(state: &mut State, name: &str, kafka: Option<&str>) {
        let change = ReplicaChange::KafkaAt(kafka.map(str::to_owned));
        let name = name.to_owned();
        state
            .apply(Command::Member(MemberCommand::Alter { name, change }))
            .unwrap();
    }

    /// Members a, b, c: nodes and brokers 1, 2, 3; all but `declared` have joined.
    fn cluster(count: u128, declared: u128) -> State {
        let mut state = State::default();
        state.apply(Command::JoinNode { node: NodeId(1) }).unwrap();
        for (node, name) in (1..=count).zip(["a", "b", "c"]) {
            let spec = ReplicaSpec {
                name: name.into(),
                at: format!("{name}:1"),
                clients_at: None,
                http_at: None,
                kafka_at: Some(format!("{name}.example:9092")),
                node: Some(NodeId(node)),
                roles: None,
            };
            let define = MemberCommand::Define {
                spec,
                if_not_exists: false,
            };
            state.apply(Command::Member(define)).unwrap();
            if node != declared {
                let joined = MemberCommand::Joined { node: NodeId(node) };
                state.apply(Command::Member(joined)).unwrap();
            }
        }
        state
    }

    fn hosts(brokers: &Brokers) -> Vec<(i32, &str)> {
        brokers.listed().iter().map(|e| (e.broker, &*e.host)).collect()
    }

    #[test]
    fn a_lone_member_is_where_the_client_reached_it_unless_told() {
        let mut state = State::default();
        state.apply(Command::JoinNode { node: NodeId(1) }).unwrap();
        let told = ("kafka.example".to_owned(), 19092);
        let brokers = |state: &State, told: Option<&(String, u16)>| Brokers::new(state, NodeId(1), told, reached());
        assert_eq!(hosts(&brokers(&state, None)), [(1, "10.1.2.3")]);
        assert_eq!(hosts(&brokers(&state, Some(&told))), [(1, "kafka.example")]);
        let mut state = cluster(1, 0);
        assert_eq!(hosts(&brokers(&state, Some(&told))), [(1, "a.example")]);
        alter(&mut state, "a", None);
        assert_eq!(
            hosts(&brokers(&state, None)),
            [(1, "10.1.2.3")],
            "somebody has to be told of"
        );
    }

    #[test]
    fn every_joined_member_with_an_address_is_told_of_by_all_alike() {
        let mut state = cluster(3, 3);
        let seen = |state: &State, node| {
            let brokers = Brokers::new(state, NodeId(node), None, reached());
            brokers.listed().iter().map(|e| e.broker).collect::<Vec<_>>()
        };
        assert_eq!((seen(&state, 1), seen(&state, 2)), (vec![1, 2], vec![1, 2]));
        alter(&mut state, "b", None);
        assert_eq!((seen(&state, 1), seen(&state, 2)), (vec![1], vec![1]));
        alter(&mut state, "a", None);
        assert_eq!(
            (seen(&state, 1), seen(&state, 2)),
            (vec![1], vec![2]),
            "each for itself"
        );
    }

    #[test]
    fn who_stands_in_for_a_hidden_member_is_one_for_each_range_and_stays() {
        let mut state = cluster(3, 0);
        alter(&mut state, "c", None);
        let shown = |state: &State, by: u128, range: u32| {
            let brokers = Brokers::new(state, NodeId(by), None, reached());
            brokers.shown(state, NodeId(3), RangeId(range)).map(|e| e.broker)
        };
        let all: Vec<_> = (1..17).map(|range| shown(&state, 1, range)).collect();
        assert_eq!(all, (1..17).map(|range| shown(&state, 3, range)).collect::<Vec<_>>());
        assert!(all.contains(&Some(1)) && all.contains(&Some(2)), "spread: {all:?}");
        alter(&mut state, "c", Some("c.example:9092"));
        assert_eq!(shown(&state, 1, 1), Some(3));
    }

    #[test]
    fn the_reached_address_unless_told() {
        let reached = "[::ffff:10.1.2.3]:9092".parse().unwrap();
        assert_eq!(advertised(None, reached), ("10.1.2.3".into(), 9092));
        let told = ("kafka.example".to_owned(), 19092);
        assert_eq!(advertised(Some(&told), reached), told);
    }
}
