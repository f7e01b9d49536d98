//! What a node needs to reach the others of its store, and to be reached.

use crate::config::Cluster;
use anyhow::Context;
use cluster::catalog::{Catalog, Told};
use cluster::forward::Forward;
use cluster::ids::NodeId;
use cluster::membership::{Identity, Membership, MembershipParts, Running, Store};
use cluster::peer::{Credentials, PeerServer, Peers, Serving, Transport};
use cluster::raft::RangeHost;
use cluster::routes::Routes;
use std::fs;
use std::path::Path;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Where a node listens for its peers, and by what it is known.
pub(super) struct Port {
    listener: TcpListener,
    transport: Transport,
    /// What it tells of itself.
    told: Told,
}

impl Port {
    /// Listens as the configuration says; `None` where it says nothing.
    pub async fn bind(config: &Cluster) -> anyhow::Result<Option<Self>> {
        let (Some(address), Some(credential), Some(key), Some(authority)) = (
            &config.cluster_address,
            &config.cluster_credential,
            &config.cluster_key,
            &config.cluster_authority,
        ) else {
            return Ok(None);
        };
        let read = |path: &Path| fs::read(path).with_context(|| format!("{} cannot be read", path.display()));
        let transport = Transport::Tls(Credentials {
            certificate: read(credential)?,
            key: read(key)?,
            authority: read(authority)?,
        });
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        Ok(Some(Self {
            listener,
            transport,
            told: Told::default(),
        }))
    }

    pub fn tell(&mut self, told: Told) {
        self.told = told;
    }
}

/// A node's peers before its ranges are there.
pub(super) struct Peering {
    port: Port,
    pub peers: Peers,
    pub identity: Identity,
    pub membership: Membership,
}

/// A node among others.
pub(super) struct Among {
    pub membership: Membership,
    pub store: Store,
    serving: Serving,
    identity: JoinHandle<()>,
    running: Option<Running>,
}

impl Peering {
    /// `adopted`: the store that the node's folder was taken into.
    pub fn new(port: Port, node: NodeId, adopted: Option<Uuid>) -> Self {
        let identity = Identity::new(node, adopted);
        let peers = Peers::new(node, port.transport.clone(), identity.standing(), identity.addresses());
        let membership = Membership::new(MembershipParts {
            node,
            told: port.told.clone(),
            identity: identity.clone(),
        });
        Self {
            port,
            peers,
            identity,
            membership,
        }
    }

    /// Answers peers. The catalog may come only by that.
    pub fn serve(
        self,
        node: NodeId,
        host: &RangeHost,
        catalog: &Catalog,
        routes: &Routes,
        forward: &Forward,
    ) -> anyhow::Result<Among> {
        let server = PeerServer::new(node, self.identity.standing(), host.feed());
        let server = forward.serve(self.membership.serve(host.serve(server)));
        let serving = server.serve(self.port.listener, &self.port.transport)?;
        Ok(Among {
            membership: self.membership,
            store: Store {
                catalog: catalog.clone(),
                host: host.clone(),
                peers: self.peers,
                routes: routes.clone(),
            },
            serving,
            identity: tokio::spawn(self.identity.follow(catalog.clone())),
            running: None,
        })
    }
}

impl Among {
    /// Starts what keeps members and ranges as they should be.
    pub fn start(&mut self) {
        self.running = Some(self.membership.start(self.store.clone()));
    }

    /// Resolves when another store wants this node and it still has declared nothing.
    pub async fn wanted(&self) -> Uuid {
        let mut wanted = self.membership.wanted();
        match wanted.wait_for(Option::is_some).await.ok().and_then(|store| *store) {
            Some(store) => store,
            None => std::future::pending().await,
        }
    }

    /// Hands over what this node leads.
    pub async fn hand_over(&self) {
        self.membership.hand_over(&self.store).await;
    }

    /// Ends all of it.
    pub async fn stop(self) {
        drop(self.running);
        self.identity.abort();
        self.serving.stop().await;
    }
}
