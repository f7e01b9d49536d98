//! Requests about groups that another member must answer: carried there whole, and answered by the handler there.
//!
//! ```text
//!   request -> its groups -> who coordinates them? --+--> this node: the handler
//!                                                    +--> another: Forward::ask --> Carried --> the handler there
//! ```
//!
//! A request that names groups of several coordinators is taken apart, and the answers are put together. What came from
//! another member is never carried on: whoever no longer coordinates says NOT_COORDINATOR (16), or (14) that it is about
//! to. The caller's rights are judged here and there, by who it is; that the other node believes who that is rests on the
//! authority that both nodes' certificates come from.
//!
//! ```text
//!   question   version u8 | key i16 | version i16 | correlation i32 | client id | remote | local | who | body
//!     client id, remote, local    length i16 (-1: none) | UTF-8
//!     who                         0 nobody   1 user: length i16 | name | id u64 | credential u64   2 the store's owner
//!   answer     the response as it goes to the client, its length in front
//! ```

use super::access::Access;
use super::call::{Call, Peer, Shared};
use super::dispatch;
use super::guard;
use super::handlers::groups::{self, list_groups};
use super::reply::{Refusal, encode};
use super::table::Api;
use crate::auth::{Action, Principal, Who};
use crate::connections::Held;
use crate::groups::{Refusal as GroupRefusal, subscription};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use cluster::forward::{Answers, AskError, Door, NoAnswer};
use cluster::ids::{NodeId, UserId};
use futures::future::{BoxFuture, join_all};
use futures::stream::{self, BoxStream, StreamExt};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

const VERSION: u8 = 1;
/// How long another member's answer is waited for.
const ANSWER: Duration = Duration::from_secs(30);
/// Those that wait for other members of the group: as long as the client does, and the coordinator lives.
const REBALANCE: Duration = Duration::from_millis(u32::MAX as u64);
/// The longest answer taken.
const LONGEST: usize = 256 << 20;

/// A group that a request is about, and the topics it names with it.
type Named = (StrBytes, Vec<String>);
/// Answers by the places of their groups in the request.
type Parts<T> = Vec<(Vec<usize>, T)>;

/// A request about groups.
pub(super) trait AboutGroups: Decodable + Encodable + Send + Sized {
    /// What it is answered.
    type Answer: Decodable + Encodable + Send;
    /// What it does with the groups.
    const ACTION: Action;
    /// Whether the topics it names decide where a group belongs that belongs nowhere yet.
    const SETTLES: bool = false;
    /// How long the answer may take.
    const WITHIN: Duration = ANSWER;

    /// The groups.
    fn groups(&self, version: i16) -> Vec<Named>;

    /// The part of it about these groups, for requests that may name several.
    fn only(&self, _groups: &[usize]) -> Option<Self> {
        None
    }

    /// One answer of the answers to parts.
    fn join(parts: Parts<Self::Answer>) -> Option<Self::Answer> {
        parts.into_iter().next().map(|(_, answer)| answer)
    }
}

fn alone(group: &GroupId) -> Vec<Named> {
    vec![(group.0.clone(), Vec::new())]
}

/// What parts were answered, in the order of the request.
fn in_order<T>(parts: Parts<Vec<T>>) -> Vec<T> {
    let mut all: Vec<(usize, T)> = parts.into_iter().flat_map(|(at, of)| at.into_iter().zip(of)).collect();
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, answer)| answer).collect()
}

fn some<T: Clone>(of: &[T], wanted: &[usize]) -> Vec<T> {
    wanted.iter().filter_map(|at| of.get(*at).cloned()).collect()
}

impl AboutGroups for JoinGroupRequest {
    type Answer = JoinGroupResponse;
    const ACTION: Action = Action::Read;
    const SETTLES: bool = true;
    const WITHIN: Duration = REBALANCE;

    fn groups(&self, _version: i16) -> Vec<Named> {
        let consumes = &*self.protocol_type == subscription::CONSUMER;
        let protocols = self.protocols.iter().filter(|_| consumes);
        let topics = protocols
            .map(|p| subscription::topics(&p.metadata))
            .find_map(|topics| topics);
        vec![(self.group_id.0.clone(), topics.into_iter().flatten().collect())]
    }
}

impl AboutGroups for SyncGroupRequest {
    type Answer = SyncGroupResponse;
    const ACTION: Action = Action::Read;
    const WITHIN: Duration = REBALANCE;

    fn groups(&self, _version: i16) -> Vec<Named> {
        alone(&self.group_id)
    }
}

impl AboutGroups for HeartbeatRequest {
    type Answer = HeartbeatResponse;
    const ACTION: Action = Action::Read;

    fn groups(&self, _version: i16) -> Vec<Named> {
        alone(&self.group_id)
    }
}

impl AboutGroups for LeaveGroupRequest {
    type Answer = LeaveGroupResponse;
    const ACTION: Action = Action::Read;

    fn groups(&self, _version: i16) -> Vec<Named> {
        alone(&self.group_id)
    }
}

impl AboutGroups for OffsetCommitRequest {
    type Answer = OffsetCommitResponse;
    const ACTION: Action = Action::Read;
    const SETTLES: bool = true;

    fn groups(&self, _version: i16) -> Vec<Named> {
        let topics = self.topics.iter().map(|t| t.name.to_string());
        vec![(self.group_id.0.clone(), topics.collect())]
    }
}

impl AboutGroups for OffsetDeleteRequest {
    type Answer = OffsetDeleteResponse;
    const ACTION: Action = Action::Read;

    fn groups(&self, _version: i16) -> Vec<Named> {
        let topics = self.topics.iter().map(|t| t.name.to_string());
        vec![(self.group_id.0.clone(), topics.collect())]
    }
}

impl AboutGroups for OffsetFetchRequest {
    type Answer = OffsetFetchResponse;
    const ACTION: Action = Action::Read;
    const SETTLES: bool = true;

    fn groups(&self, version: i16) -> Vec<Named> {
        if version < 8 {
            let topics = self.topics.iter().flatten().map(|t| t.name.to_string());
            return vec![(self.group_id.0.clone(), topics.collect())];
        }
        let groups = self.groups.iter().map(|group| {
            let topics = group.topics.iter().flatten().map(|t| t.name.to_string());
            (group.group_id.0.clone(), topics.collect())
        });
        groups.collect()
    }

    fn only(&self, groups: &[usize]) -> Option<Self> {
        Some(self.clone().with_groups(some(&self.groups, groups)))
    }

    fn join(parts: Parts<OffsetFetchResponse>) -> Option<OffsetFetchResponse> {
        let groups = parts.into_iter().map(|(at, answer)| (at, answer.groups));
        Some(OffsetFetchResponse::default().with_groups(in_order(groups.collect())))
    }
}

impl AboutGroups for DescribeGroupsRequest {
    type Answer = DescribeGroupsResponse;
    const ACTION: Action = Action::Read;

    fn groups(&self, _version: i16) -> Vec<Named> {
        self.groups.iter().flat_map(alone).collect()
    }

    fn only(&self, groups: &[usize]) -> Option<Self> {
        Some(self.clone().with_groups(some(&self.groups, groups)))
    }

    fn join(parts: Parts<DescribeGroupsResponse>) -> Option<DescribeGroupsResponse> {
        let groups = parts.into_iter().map(|(at, answer)| (at, answer.groups));
        Some(DescribeGroupsResponse::default().with_groups(in_order(groups.collect())))
    }
}

impl AboutGroups for DeleteGroupsRequest {
    type Answer = DeleteGroupsResponse;
    const ACTION: Action = Action::Declare;

    fn groups(&self, _version: i16) -> Vec<Named> {
        self.groups_names.iter().flat_map(alone).collect()
    }

    fn only(&self, groups: &[usize]) -> Option<Self> {
        // A group named again is answered once, as in a request that is not taken apart.
        let mut names: Vec<GroupId> = Vec::new();
        for name in some(&self.groups_names, groups) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Some(self.clone().with_groups_names(names))
    }

    fn join(parts: Parts<DeleteGroupsResponse>) -> Option<DeleteGroupsResponse> {
        let results = parts.into_iter().map(|(at, answer)| (at, answer.results));
        Some(DeleteGroupsResponse::default().with_results(in_order(results.collect())))
    }
}

/// What answers a request on the node it is for.
type Handler<Q> = for<'a> fn(&'a Call, Q) -> BoxFuture<'a, <Q as AboutGroups>::Answer>;

/// Answers a request about groups, here or where they are coordinated.
pub(super) async fn answer<Q: AboutGroups>(call: &Call, body: Bytes, handler: Handler<Q>) -> Result<BytesMut, Refusal> {
    let request: Q = dispatch::decode(call.version, body.clone())?;
    let places = places(call, &request).await;
    let (first, same) = match places.split_first() {
        Some((first, rest)) => (*first, rest.iter().all(|place| place == first)),
        None => (None, true),
    };
    let response = match (first, same) {
        (None, true) => handler(call, request).await,
        (Some(node), true) => match carry(call, node, &body, Q::WITHIN).await {
            Ok(answer) => return Ok(answer),
            Err(error) => handler(&refused(call, node, &error), request).await,
        },
        (_, false) => apart(call, &request, &places, handler).await?,
    };
    encode(call.api, call.version, call.correlation, &response)
}

/// Who must answer for each group: another node, or this one.
async fn places<Q: AboutGroups>(call: &Call, request: &Q) -> Vec<Option<NodeId>> {
    if call.carried || !call.broker().forward().reaches_others() {
        return Vec::new();
    }
    let mut places = Vec::new();
    for (group, topics) in request.groups(call.version) {
        let address = {
            let state = call.view();
            let access = Access::new(call, &state);
            groups::address(call, &access, Q::ACTION, &group, topics.iter().map(String::as_str))
        };
        // What can't be told, or may not be, the handler here says.
        places.push(match address {
            Ok(address) => call.shared.groups.elsewhere(&address, Q::SETTLES).await.unwrap_or(None),
            Err(_) => None,
        });
    }
    places
}

/// Asks each place for its part.
async fn apart<Q: AboutGroups>(
    call: &Call,
    request: &Q,
    places: &[Option<NodeId>],
    handler: Handler<Q>,
) -> Result<Q::Answer, Refusal> {
    let mut nodes: Vec<Option<NodeId>> = places.to_vec();
    nodes.sort_unstable();
    nodes.dedup();
    let parts = nodes.into_iter().map(|node| async move {
        let at: Vec<usize> = (0..places.len()).filter(|at| places[*at] == node).collect();
        let part = request
            .only(&at)
            .ok_or_else(|| Refusal::Answer("not to be taken apart".into()))?;
        let answer = match node {
            None => handler(call, part).await,
            Some(node) => match carry_part(call, node, &part).await? {
                Ok(answer) => answer,
                Err(error) => handler(&refused(call, node, &error), part).await,
            },
        };
        Ok((at, answer))
    });
    let parts = join_all(parts).await.into_iter().collect::<Result<_, Refusal>>()?;
    Q::join(parts).ok_or_else(|| Refusal::Answer("no part was answered".into()))
}

async fn carry_part<Q: AboutGroups>(
    call: &Call,
    node: NodeId,
    part: &Q,
) -> Result<Result<Q::Answer, AskError>, Refusal> {
    let mut body = BytesMut::new();
    part.encode(&mut body, call.version)
        .map_err(|e| Refusal::Answer(e.to_string()))?;
    Ok(match carry(call, node, &body.freeze(), Q::WITHIN).await {
        Ok(answer) => read(call, answer),
        Err(error) => Err(error),
    })
}

/// ListGroups: the groups of all coordinators.
pub(super) async fn list(call: &Call, body: Bytes) -> Result<BytesMut, Refusal> {
    let request: ListGroupsRequest = dispatch::decode(call.version, body.clone())?;
    let others = match call.carried || !call.broker().forward().reaches_others() {
        true => Ok(Default::default()),
        false => {
            let scope = {
                let state = call.view();
                groups::scope(call, &Access::new(call, &state))
            };
            call.shared.groups.others(scope)
        }
    };
    let mut response = list_groups(call, request).await;
    match others {
        Ok(others) => {
            let body = &body;
            let lists = others.into_iter().map(|node| async move {
                let answer = carry(call, node, body, ANSWER).await;
                answer.and_then(|answer| read::<ListGroupsResponse>(call, answer))
            });
            for list in join_all(lists).await {
                match list {
                    Ok(mut list) if list.error_code == 0 => response.groups.append(&mut list.groups),
                    Ok(list) => response.error_code = list.error_code,
                    Err(error) => {
                        tracing::debug!(%error, "a coordinator does not list its groups");
                        response.error_code = groups::error(GroupRefusal::CoordinatorNotAvailable).code();
                    }
                }
            }
        }
        Err(refusal) => response.error_code = groups::error(refusal).code(),
    }
    encode(call.api, call.version, call.correlation, &response)
}

/// The same call, to be told that the coordinator is not here: it could not be asked, and nobody but the client may ask it
/// again.
fn refused(call: &Call, node: NodeId, error: &AskError) -> Call {
    tracing::debug!(%node, %error, api = ?call.api.key, "the coordinator did not answer");
    Call {
        refused: Some(GroupRefusal::NotCoordinator),
        ..call.clone()
    }
}

/// The body of a framed response.
fn read<T: Decodable>(call: &Call, answer: BytesMut) -> Result<T, AskError> {
    let mut answer = answer.freeze();
    let header = 8 + usize::from(call.api.response_header(call.version) > 0);
    let unreadable = |why: String| AskError::Unknown(format!("the answer can't be read: {why}"));
    if answer.len() < header {
        return Err(unreadable("it is too short".into()));
    }
    answer.advance(header);
    T::decode(&mut answer, call.version).map_err(|e| unreadable(e.to_string()))
}

/// Asks another node to answer the request; its answer goes to the client as it is.
async fn carry(call: &Call, node: NodeId, body: &Bytes, within: Duration) -> Result<BytesMut, AskError> {
    let question = question(call, body)?;
    let reply = call
        .broker()
        .forward()
        .ask(node, Door::Requests, question, within)
        .await?;
    let answer = reply.whole(LONGEST).await?;
    let mut head = &answer[..];
    let fits = |len: i32| usize::try_from(len) == Ok(answer.len() - 4);
    if !head.try_get_i32().is_ok_and(fits) || head.try_get_i32() != Ok(call.correlation) {
        return Err(AskError::Unknown("the answer is of something else".into()));
    }
    Ok(answer
        .try_into_mut()
        .unwrap_or_else(|answer| BytesMut::from(&answer[..])))
}

fn put_text(out: &mut BytesMut, text: &str) -> Result<(), AskError> {
    let len = i16::try_from(text.len()).map_err(|_| AskError::NotAsked("a name too long".into()))?;
    out.put_i16(len);
    out.put_slice(text.as_bytes());
    Ok(())
}

fn question(call: &Call, body: &Bytes) -> Result<Bytes, AskError> {
    let mut out = BytesMut::with_capacity(128 + body.len());
    out.put_u8(VERSION);
    out.put_i16(call.api.key as i16);
    out.put_i16(call.version);
    out.put_i32(call.correlation);
    match &call.client_id {
        Some(client_id) => put_text(&mut out, client_id)?,
        None => out.put_i16(-1),
    }
    put_text(&mut out, &call.peer.remote.to_string())?;
    put_text(&mut out, &call.peer.local.to_string())?;
    match &call.who {
        Who::Anonymous => out.put_u8(0),
        Who::User(Principal { name, id, credential }) => {
            out.put_u8(1);
            put_text(&mut out, name)?;
            out.put_u64(id.0);
            out.put_u64(*credential);
        }
        Who::Folder => out.put_u8(2),
    }
    out.put_slice(body);
    Ok(out.freeze())
}

fn get_text(question: &mut Bytes) -> Option<Option<StrBytes>> {
    match usize::try_from(question.try_get_i16().ok()?) {
        Err(_) => Some(None),
        Ok(len) if len <= question.len() => StrBytes::from_utf8(question.split_to(len)).ok().map(Some),
        Ok(_) => None,
    }
}

/// A question as a call of this node.
fn open(shared: Arc<Shared>, mut question: Bytes) -> Option<(Call, Bytes)> {
    let q = &mut question;
    if q.try_get_u8().ok()? != VERSION {
        return None;
    }
    let api = Api::of(q.try_get_i16().ok()?)?;
    let version = q.try_get_i16().ok().filter(|version| api.decodes(*version))?;
    let correlation = q.try_get_i32().ok()?;
    let client_id = get_text(q)?;
    let mut address = || -> Option<SocketAddr> { get_text(q)??.parse().ok() };
    let (remote, local) = (address()?, address()?);
    let who = match q.try_get_u8().ok()? {
        0 => Who::Anonymous,
        1 => Who::User(Principal {
            name: Arc::from(get_text(q)??.as_str()),
            id: UserId(q.try_get_u64().ok()?),
            credential: q.try_get_u64().ok()?,
        }),
        2 => Who::Folder,
        _ => return None,
    };
    let call = Call {
        peer: Arc::new(Peer::new(remote, local, None)),
        shared,
        who,
        api,
        version,
        correlation,
        client_id,
        carried: true,
        refused: None,
    };
    Some((call, question))
}

/// Answers what other members carry to this node.
pub(super) struct Carried(pub Weak<Shared>);

impl Answers for Carried {
    fn answer(&self, from: NodeId, question: Bytes, _within: Duration) -> BoxStream<'static, Result<Bytes, NoAnswer>> {
        let shared = self.0.upgrade();
        stream::once(async move {
            let shared = shared.ok_or_else(|| NoAnswer("the front door is closed".into()))?;
            let unreadable = || NoAnswer(format!("a request of node {from} that can't be read here"));
            let (call, body) = open(shared, question).ok_or_else(unreadable)?;
            run(call, body).await.map_err(|refusal| NoAnswer(refusal.to_string()))
        })
        .boxed()
    }
}

async fn run(call: Call, body: Bytes) -> Result<Bytes, Refusal> {
    let checked = guard::check(call.api, call.version, &body)?;
    let mut held = Held::default();
    if checked.memory > dispatch::SMALL {
        call.shared.memory.grow(&mut held, checked.memory).await;
    }
    let answer = dispatch::carried(&call, body.slice(..checked.len)).await?;
    Ok(answer.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
    use kafka_protocol::messages::describe_groups_response::DescribedGroup;

    fn id(name: &str) -> GroupId {
        GroupId(StrBytes::from_string(name.to_owned()))
    }

    #[test]
    fn parts_come_together_in_the_order_of_the_request() {
        let request = DescribeGroupsRequest::default().with_groups(["a", "b", "c", "d"].map(id).to_vec());
        let parts = [vec![1, 3], vec![0, 2]].map(|at| {
            let part = request.only(&at).unwrap();
            let groups = part
                .groups
                .into_iter()
                .map(|id| DescribedGroup::default().with_group_id(id));
            (at, DescribeGroupsResponse::default().with_groups(groups.collect()))
        });
        let joined = DescribeGroupsRequest::join(parts.into()).unwrap();
        let names: Vec<_> = joined.groups.iter().map(|g| g.group_id.to_string()).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_group_named_twice_is_deleted_once() {
        let request = DeleteGroupsRequest::default().with_groups_names(["x", "y", "x"].map(id).to_vec());
        let part = request.only(&[0, 2]).unwrap();
        assert_eq!(part.groups_names, [id("x")]);
        let results = |names: Vec<GroupId>| {
            let results = names
                .into_iter()
                .map(|id| DeletableGroupResult::default().with_group_id(id));
            DeleteGroupsResponse::default().with_results(results.collect())
        };
        let other = request.only(&[1]).unwrap();
        let parts = vec![
            (vec![0, 2], results(part.groups_names)),
            (vec![1], results(other.groups_names)),
        ];
        let joined = DeleteGroupsRequest::join(parts).unwrap().results;
        assert_eq!(
            joined.iter().map(|r| r.group_id.clone()).collect::<Vec<_>>(),
            [id("x"), id("y")]
        );
    }
}
