//! What members ask of this node's membership: its bulletins, and to be of their store.

use super::bulletin::{Bulletin, RangeReport, ReplicaReport};
use crate::catalog::Told;
use crate::ids::{NodeId, RangeId};
use crate::peer::proto::adoption_client::AdoptionClient;
use crate::peer::proto::adoption_server::{Adoption, AdoptionServer};
use crate::peer::proto::bulletins_client::BulletinsClient;
use crate::peer::proto::bulletins_server::{Bulletins, BulletinsServer};
use crate::peer::proto::{self, AdoptReply, AdoptRequest, HostPort, WatchBulletinsRequest, node_bytes, node_id};
use crate::peer::{Class, PeerError, PeerServer, Peers, Standing};
use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use uuid::Uuid;

/// An adoption must be answered in this time.
const ADOPT: Duration = Duration::from_secs(3);
/// Ranges that one bulletin may tell of; far more than a store has.
const MAX_RANGES: usize = 4096;

/// Adds what membership answers to a server. `wanted` is told the store that asks for this node.
pub(super) fn serve(
    server: PeerServer,
    bulletins: watch::Receiver<Arc<Bulletin>>,
    standing: watch::Receiver<Standing>,
    wanted: watch::Sender<Option<Uuid>>,
) -> PeerServer {
    server
        .with(BulletinsServer::new(Telling { bulletins }))
        .with_strangers(AdoptionServer::new(Adopting { standing, wanted }))
}

struct Telling {
    bulletins: watch::Receiver<Arc<Bulletin>>,
}

#[tonic::async_trait]
impl Bulletins for Telling {
    type WatchStream = BoxStream<'static, Result<proto::Bulletin, Status>>;

    async fn watch(&self, _request: Request<WatchBulletinsRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let start = (self.bulletins.clone(), true);
        let bulletins = stream::unfold(start, |(mut bulletins, first)| async move {
            if !first {
                bulletins.changed().await.ok()?;
            }
            let bulletin = encode(&bulletins.borrow_and_update());
            Some((Ok(bulletin), (bulletins, false)))
        });
        Ok(Response::new(bulletins.boxed()))
    }
}

struct Adopting {
    standing: watch::Receiver<Standing>,
    wanted: watch::Sender<Option<Uuid>>,
}

#[tonic::async_trait]
impl Adoption for Adopting {
    async fn adopt(&self, request: Request<AdoptRequest>) -> Result<Response<AdoptReply>, Status> {
        let store = uuid(&request.into_inner().store)?;
        let standing = self.standing.borrow().clone();
        if standing.store == Some(store) {
            return Ok(Response::new(AdoptReply {}));
        }
        if standing.occupied {
            return Err(Status::failed_precondition("the node has declarations of its own"));
        }
        // The first store that asks gets the node.
        let first = self.wanted.send_if_modified(|wanted| {
            let first = wanted.is_none();
            wanted.get_or_insert(store);
            first
        });
        match first || *self.wanted.borrow() == Some(store) {
            true => Ok(Response::new(AdoptReply {})),
            false => Err(Status::failed_precondition("another store has taken the node")),
        }
    }
}

impl Peers {
    /// Asks the node `node` at `address` to give up its store, which must be empty, for the caller's.
    pub(super) async fn adopt(&self, address: &str, node: NodeId, store: Uuid) -> Result<(), PeerError> {
        let mut client = AdoptionClient::new(self.connection(address, Some(node))?);
        let ask = client.adopt(AdoptRequest {
            store: Bytes::copy_from_slice(store.as_bytes()),
        });
        let answer = tokio::time::timeout(ADOPT, ask).await;
        answer.map_err(|_| PeerError::Unreachable(format!("{address} did not answer in {ADOPT:?}")))??;
        Ok(())
    }

    /// What a member tells of itself, again and again. Ends with an error when the connection does.
    pub(super) async fn watch_bulletins(
        &self,
        node: NodeId,
    ) -> Result<impl Stream<Item = Result<Bulletin, PeerError>> + Send + use<>, PeerError> {
        let mut client = BulletinsClient::new(self.channel(node, Class::Urgent)?);
        let bulletins = client.watch(WatchBulletinsRequest {}).await?.into_inner();
        Ok(bulletins.map(|bulletin| Ok(decode(bulletin?)?)))
    }
}

fn uuid(bytes: &[u8]) -> Result<Uuid, Status> {
    Uuid::from_slice(bytes).map_err(|_| Status::invalid_argument("a store has 16 bytes"))
}

fn encode(bulletin: &Bulletin) -> proto::Bulletin {
    let replica = |(node, report): (&NodeId, &ReplicaReport)| proto::ReplicaReport {
        node: node_bytes(*node),
        voter: report.voter,
        lag_entries: report.lag_entries,
        lag_bytes: report.lag_bytes,
        heard: report.heard,
    };
    let range = |(range, report): (&RangeId, &RangeReport)| proto::RangeReport {
        range: range.0,
        term: report.term,
        members: report.members.iter().map(replica).collect(),
    };
    proto::Bulletin {
        kafka: bulletin.told.kafka.as_ref().map(|(host, port)| HostPort {
            host: host.clone(),
            port: u32::from(*port),
        }),
        serve: bulletin.told.serve.clone().unwrap_or_default(),
        led: bulletin.led.iter().map(range).collect(),
    }
}

fn decode(bulletin: proto::Bulletin) -> Result<Bulletin, Status> {
    if bulletin.led.len() > MAX_RANGES {
        return Err(Status::invalid_argument("more ranges than there can be"));
    }
    let kafka = bulletin.kafka.map(|at| match u16::try_from(at.port) {
        Ok(port) => Ok((at.host, port)),
        Err(_) => Err(Status::invalid_argument("a port that is none")),
    });
    let replica = |report: proto::ReplicaReport| {
        let replica = ReplicaReport {
            voter: report.voter,
            lag_entries: report.lag_entries,
            lag_bytes: report.lag_bytes,
            heard: report.heard,
        };
        Ok((node_id(&report.node)?, replica))
    };
    let range = |report: proto::RangeReport| {
        let members = report.members.into_iter().map(replica).collect::<Result<_, Status>>()?;
        let term = report.term;
        Ok((RangeId(report.range), RangeReport { term, members }))
    };
    Ok(Bulletin {
        told: Told {
            kafka: kafka.transpose()?,
            serve: Some(bulletin.serve).filter(|serve| !serve.is_empty()),
        },
        led: bulletin.led.into_iter().map(range).collect::<Result<_, Status>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bulletin_reads_as_it_was_written() {
        let report = ReplicaReport {
            voter: true,
            lag_entries: 3,
            lag_bytes: 5000,
            heard: true,
        };
        let range = RangeReport {
            term: 7,
            members: [(NodeId(1), report), (NodeId(u128::MAX), ReplicaReport::default())].into(),
        };
        let full = Bulletin {
            told: Told {
                kafka: Some(("fd00::1".into(), 9092)),
                serve: Some("db:9080".into()),
            },
            led: [(RangeId(0), range)].into(),
        };
        for bulletin in [full, Bulletin::default()] {
            assert_eq!(decode(encode(&bulletin)).unwrap(), bulletin);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let bad_port = proto::Bulletin {
            kafka: Some(HostPort {
                host: "h".into(),
                port: 70_000,
            }),
            ..proto::Bulletin::default()
        };
        let many = proto::Bulletin {
            led: vec![proto::RangeReport::default(); MAX_RANGES + 1],
            ..proto::Bulletin::default()
        };
        let nobody = proto::Bulletin {
            led: vec![proto::RangeReport {
                members: vec![proto::ReplicaReport::default()],
                ..proto::RangeReport::default()
            }],
            ..proto::Bulletin::default()
        };
        for bad in [bad_port, many, nobody] {
            assert!(decode(bad).is_err());
        }
    }
}
