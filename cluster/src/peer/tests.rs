//! Nodes that greet each other over loopback.

use super::*;
use crate::ids::{NodeId, RangeId};
use futures::StreamExt;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use uuid::Uuid;

/// An authority, and certificates of it for localhost.
pub(crate) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    pub fn credentials(&self) -> Transport {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
        Transport::Tls(Credentials {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
            authority: self.pem.clone().into_bytes(),
        })
    }
}

struct Node {
    id: NodeId,
    address: String,
    peers: Peers,
    standing: watch::Sender<Standing>,
    addresses: watch::Sender<Arc<BTreeMap<NodeId, String>>>,
    feed: LeadershipFeed,
    _serving: Serving,
}

async fn node(id: u128, transport: Transport, store: Option<Uuid>) -> Node {
    let id = NodeId(id);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let standing = watch::Sender::new(Standing {
        store,
        ..Standing::default()
    });
    let addresses = watch::Sender::new(Arc::default());
    let feed = LeadershipFeed::default();
    let server = PeerServer::new(id, standing.subscribe(), feed.clone());
    Node {
        id,
        address,
        _serving: server.serve(listener, &transport).unwrap(),
        peers: Peers::new(id, transport, standing.subscribe(), addresses.subscribe()),
        standing,
        addresses,
        feed,
    }
}

#[tokio::test]
async fn nodes_of_one_authority_greet_each_other() {
    let authority = Authority::new();
    let store = Uuid::new_v4();
    let one = node(1, authority.credentials(), Some(store)).await;
    let two = node(2, authority.credentials(), None).await;
    let greeting = two.peers.hello(&one.address, Some(one.id)).await.unwrap();
    assert_eq!(
        (greeting.node, greeting.store, greeting.version),
        (one.id, Some(store), 1)
    );
    two.standing.send_modify(|standing| standing.occupied = true);
    let greeting = one.peers.hello(&two.address, None).await.unwrap();
    assert_eq!((greeting.node, greeting.store, greeting.occupied), (two.id, None, true));
}

#[tokio::test]
async fn another_node_than_the_one_meant_refuses() {
    let one = node(1, Transport::Plain, None).await;
    let two = node(2, Transport::Plain, None).await;
    let refused = one.peers.hello(&two.address, Some(NodeId(3))).await;
    assert!(
        matches!(&refused, Err(PeerError::Refused(why)) if why.contains(&two.id.to_string())),
        "{refused:?}"
    );
}

#[tokio::test]
async fn another_authority_and_plain_text_are_refused() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let one = node(1, ours.credentials(), None).await;
    for stranger in [theirs.credentials(), Transport::Plain] {
        let two = node(2, stranger, None).await;
        for (from, to) in [(&one, &two), (&two, &one)] {
            let refused = from.peers.hello(&to.address, None).await;
            assert!(matches!(&refused, Err(PeerError::Unreachable(_))), "{refused:?}");
        }
    }
    // No certificate at all.
    let tcp = tokio::net::TcpStream::connect(&one.address).await.unwrap();
    let mut roots = tokio_rustls::rustls::RootCertStore::empty();
    use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
    roots
        .add(CertificateDer::from_pem_slice(ours.pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = tokio_rustls::rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let opened = connector.connect("127.0.0.1".try_into().unwrap(), tcp).await;
    // In TLS 1.3 the client learns on its first read that it was refused.
    if let Ok(mut tls) = opened {
        let read = tokio::io::AsyncReadExt::read(&mut tls, &mut [0; 64]).await;
        assert!(read.is_err(), "{read:?}");
    }
}

#[tokio::test]
async fn news_of_leaders_are_for_members_of_the_store() {
    let store = Uuid::new_v4();
    let one = node(1, Transport::Plain, Some(store)).await;
    let two = node(2, Transport::Plain, Some(Uuid::new_v4())).await;
    two.addresses
        .send_replace(Arc::new(BTreeMap::from([(one.id, one.address.clone())])));
    let news = |range, term, leader| RangeNews {
        range: RangeId(range),
        term,
        leader,
    };
    one.feed.tell(news(1, 5, Some(one.id)));
    let refused = two.peers.watch_leadership(one.id).await.map(drop);
    assert!(
        matches!(&refused, Err(PeerError::Refused(why)) if why.contains("store")),
        "{refused:?}"
    );
    two.standing.send_modify(|standing| standing.store = Some(store));
    let mut watch = std::pin::pin!(two.peers.watch_leadership(one.id).await.unwrap());
    assert_eq!(watch.next().await.unwrap().unwrap(), [news(1, 5, Some(one.id))]);
    one.feed.tell(news(2, 6, None));
    assert_eq!(watch.next().await.unwrap().unwrap(), [news(2, 6, None)]);

    one.standing
        .send_modify(|standing| standing.banned = Arc::new(BTreeSet::from([two.id])));
    let refused = two.peers.watch_leadership(one.id).await.map(drop);
    assert!(
        matches!(&refused, Err(PeerError::Refused(why)) if why.contains("dropped")),
        "{refused:?}"
    );
    assert!(matches!(
        two.peers.hello(&one.address, None).await,
        Err(PeerError::Refused(_))
    ));
}

#[tokio::test]
async fn a_closed_port_is_unreachable_and_no_address_is_said_so() {
    let one = node(1, Transport::Plain, None).await;
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let refused = one.peers.hello(&port.to_string(), None).await;
    assert!(matches!(refused, Err(PeerError::Unreachable(_))), "{refused:?}");
    for address in ["", "nowhere", "host:port", "a b:1"] {
        let refused = one.peers.hello(address, None).await;
        assert!(
            matches!(refused, Err(PeerError::Address { .. })),
            "{address}: {refused:?}"
        );
    }
    let unknown = one.peers.watch_leadership(NodeId(9)).await.map(drop);
    assert!(matches!(unknown, Err(PeerError::NoAddress(NodeId(9)))));
}
