//! Folding what is said of members.

use super::super::command::Reply;
use super::super::error::{CatalogError, Kind};
use super::super::replica::{KafkaAt, Member, MemberCommand, ReplicaChange, ReplicaSpec, Roles, Standing};
use super::{State, check_name, unknown};
use crate::ids::{BrokerId, NodeId, RangeId};
use std::sync::Arc;

impl State {
    /// The members, by broker id.
    pub fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.values()
    }

    /// The member that a node is.
    pub fn member(&self, node: NodeId) -> Option<&Arc<Member>> {
        self.members().find(|member| member.node == Some(node))
    }

    /// The member with this row name.
    pub fn replica(&self, name: &str) -> Option<&Arc<Member>> {
        self.members().find(|member| member.name.as_deref() == Some(name))
    }

    /// Whether the node was dropped, so that it is not to be listened to.
    pub fn is_banned(&self, node: NodeId) -> bool {
        self.banned.contains(&node)
    }

    /// Nodes that were dropped.
    pub fn banned(&self) -> impl Iterator<Item = NodeId> {
        self.banned.iter().copied()
    }

    pub(super) fn join(&mut self, node: NodeId) -> Result<Reply, CatalogError> {
        self.check_ban(node)?;
        if let Some(member) = self.member(node) {
            return Ok(Reply::Broker(member.broker));
        }
        let member = self.new_member(Some(node), Standing::Joined);
        Ok(Reply::Broker(self.put_member(member)))
    }

    pub(super) fn change_members(&mut self, command: MemberCommand) -> Result<Reply, CatalogError> {
        match command {
            MemberCommand::Define { spec, if_not_exists } => self.define_replica(spec, if_not_exists),
            MemberCommand::Alter { name, change } => self.alter_replica(&name, change),
            MemberCommand::Drop { name } => self.drop_replica(&name),
            MemberCommand::NodeRoles { node, roles } => {
                let member = self.find_member(node)?;
                self.change_roles(&member, roles)
            }
            MemberCommand::Tell { node, told } => {
                let mut member = self.find_member(node)?;
                member.told = told;
                self.put_member(member);
                Ok(Reply::Done)
            }
            MemberCommand::Bind { broker, node } => self.bind(broker, node),
            MemberCommand::Joined { node } => {
                let mut member = self.find_member(node)?;
                if member.standing == Standing::Declared {
                    member.standing = Standing::Joined;
                    self.put_member(member);
                }
                Ok(Reply::Done)
            }
            MemberCommand::Left { node } => {
                let member = self.find_member(node)?;
                if member.standing != Standing::Leaving || self.ranges().any(|row| row.voters.contains(&node)) {
                    return Err(CatalogError::InvalidValue(format!("node {node} still holds data")));
                }
                self.members.remove(&member.broker);
                Ok(Reply::Done)
            }
            MemberCommand::Place { range, voters, leader } => self.place(range, voters, leader),
        }
    }

    fn new_member(&mut self, node: Option<NodeId>, standing: Standing) -> Member {
        let broker = BrokerId(self.next.broker);
        self.next.broker += 1;
        Member {
            broker,
            node,
            name: None,
            at: None,
            clients_at: None,
            http_at: None,
            kafka: KafkaAt::Told,
            roles: Roles::ALL,
            leads: None,
            standing,
            told: super::super::replica::Told::default(),
        }
    }

    fn put_member(&mut self, member: Member) -> BrokerId {
        let broker = member.broker;
        self.members.insert(broker, Arc::new(member));
        broker
    }

    fn find_member(&self, node: NodeId) -> Result<Member, CatalogError> {
        let member = self
            .member(node)
            .ok_or_else(|| unknown(Kind::Replica, &node.to_string()))?;
        Ok((**member).clone())
    }

    fn check_ban(&self, node: NodeId) -> Result<(), CatalogError> {
        match self.is_banned(node) {
            true => Err(CatalogError::NodeTombstoned { node }),
            false => Ok(()),
        }
    }

    fn define_replica(&mut self, spec: ReplicaSpec, if_not_exists: bool) -> Result<Reply, CatalogError> {
        check_name(&spec.name)?;
        if self.replica(&spec.name).is_some() {
            return super::already(Kind::Replica, spec.name, if_not_exists);
        }
        let mut member = match spec.node {
            Some(node) => {
                self.check_ban(node)?;
                match self.member(node) {
                    Some(known) if known.name.is_none() => (**known).clone(),
                    Some(known) => return Err(taken(node, known)),
                    None => self.new_member(Some(node), Standing::Declared),
                }
            }
            None => self.new_member(None, Standing::Declared),
        };
        self.check_peer_address(&spec.at, member.broker)?;
        member.name = Some(spec.name);
        member.at = Some(spec.at);
        member.clients_at = spec.clients_at.map(checked_address).transpose()?;
        member.http_at = spec.http_at.map(checked_url).transpose()?;
        member.kafka = match spec.kafka_at {
            Some(address) => KafkaAt::At(host_and_port(&address)?),
            None => KafkaAt::Told,
        };
        let roles = spec.roles.unwrap_or(member.roles);
        self.put_member(member.clone());
        self.change_roles(&member, roles)?;
        Ok(Reply::Broker(member.broker))
    }

    fn alter_replica(&mut self, name: &str, change: ReplicaChange) -> Result<Reply, CatalogError> {
        let row = self.replica(name).ok_or_else(|| unknown(Kind::Replica, name))?;
        let mut member = (**row).clone();
        match change {
            ReplicaChange::At(at) => {
                self.check_peer_address(&at, member.broker)?;
                member.at = Some(at);
            }
            ReplicaChange::ClientsAt(at) => member.clients_at = at.map(checked_address).transpose()?,
            ReplicaChange::HttpAt(at) => member.http_at = at.map(checked_url).transpose()?,
            ReplicaChange::KafkaAt(Some(at)) => member.kafka = KafkaAt::At(host_and_port(&at)?),
            ReplicaChange::KafkaAt(None) => member.kafka = KafkaAt::Hidden,
            ReplicaChange::Leads(count) => member.leads = count,
            ReplicaChange::Roles(roles) => return self.change_roles(&member, roles),
        }
        self.put_member(member);
        Ok(Reply::Done)
    }

    /// Every change of roles goes through here: somebody must stay who can vote, and somebody who can hold data.
    fn change_roles(&mut self, member: &Member, roles: Roles) -> Result<Reply, CatalogError> {
        if member.standing == Standing::Leaving && roles != Roles::NONE {
            return Err(CatalogError::InvalidValue("the member is leaving".into()));
        }
        let mut next = member.clone();
        next.roles = roles;
        self.put_member(next);
        self.check_left()?;
        Ok(Reply::Done)
    }

    fn check_left(&self) -> Result<(), CatalogError> {
        let joined = || self.members().filter(|member| member.standing == Standing::Joined);
        if self.members().all(|member| member.standing == Standing::Declared) {
            // A store that nothing has joined yet.
            return Ok(());
        }
        let lacking = if !joined().any(|member| member.coordinates()) {
            "coordinating"
        } else if !joined().any(|member| member.holds_data()) {
            "serving"
        } else {
            return Ok(());
        };
        Err(CatalogError::InvalidValue(format!(
            "no member would be left that is {lacking}; let another join and give it the role first"
        )))
    }

    fn drop_replica(&mut self, name: &str) -> Result<Reply, CatalogError> {
        let row = self.replica(name).ok_or_else(|| unknown(Kind::Replica, name))?;
        let mut member = (**row).clone();
        if let Some(node) = member.node {
            self.banned.insert(node);
        }
        if member.standing == Standing::Declared {
            self.members.remove(&member.broker);
            return Ok(Reply::Done);
        }
        member.standing = Standing::Leaving;
        member.roles = Roles::NONE;
        self.put_member(member);
        self.check_left()?;
        Ok(Reply::Done)
    }

    fn bind(&mut self, broker: BrokerId, node: NodeId) -> Result<Reply, CatalogError> {
        let row = self
            .members
            .get(&broker)
            .ok_or_else(|| unknown(Kind::Replica, &broker.to_string()))?;
        let mut member = (**row).clone();
        if member.node == Some(node) {
            return Ok(Reply::Done);
        }
        if let Some(other) = member.node {
            return Err(CatalogError::InvalidValue(format!("the row names node {other}")));
        }
        self.check_ban(node)?;
        match self.member(node).cloned() {
            // The first node of the store gets its row: its number stays.
            Some(known) if known.name.is_none() => {
                self.members.remove(&broker);
                member.broker = known.broker;
                member.standing = known.standing;
                member.told = known.told.clone();
            }
            Some(known) => return Err(taken(node, &known)),
            None => {}
        }
        member.node = Some(node);
        let roles = member.roles;
        self.put_member(member.clone());
        self.change_roles(&member, roles)
    }

    fn place(
        &mut self,
        range: RangeId,
        mut voters: Vec<NodeId>,
        leader: Option<NodeId>,
    ) -> Result<Reply, CatalogError> {
        voters.sort_unstable();
        voters.dedup();
        if voters.is_empty() || leader.is_some_and(|node| !voters.contains(&node)) {
            return Err(CatalogError::InvalidValue(
                "a range needs voters, its leader among them".into(),
            ));
        }
        if let Some(stranger) = voters.iter().find(|node| self.member(**node).is_none()) {
            return Err(unknown(Kind::Replica, &stranger.to_string()));
        }
        if self.range(range).is_none() {
            return Err(CatalogError::InvalidValue(format!("there is no range {range}")));
        }
        self.change_range(range, |row| {
            if !row.moved && row.founders() != voters {
                row.moved = true;
                row.founders = Vec::new();
            }
            row.voters = voters;
            row.leader = leader;
        });
        Ok(Reply::Done)
    }

    /// Peers are told apart by their address too.
    fn check_peer_address(&self, at: &str, of: BrokerId) -> Result<(), CatalogError> {
        host_and_port(at)?;
        let other = self
            .members()
            .find(|member| member.broker != of && member.at.as_deref() == Some(at));
        match other.and_then(|member| member.name.as_deref()) {
            Some(name) => Err(CatalogError::InvalidValue(format!(
                "{at} is the address of replica {name}"
            ))),
            None => Ok(()),
        }
    }
}

fn taken(node: NodeId, member: &Member) -> CatalogError {
    let name = member.name.as_deref().unwrap_or("without a name");
    CatalogError::InvalidValue(format!("node {node} is replica {name} already"))
}

fn checked_address(text: String) -> Result<String, CatalogError> {
    host_and_port(&text).map(|_| text)
}

fn checked_url(text: String) -> Result<String, CatalogError> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest {
        Some(rest) if !rest.is_empty() && !text.contains(char::is_whitespace) => Ok(text),
        _ => Err(CatalogError::InvalidValue(format!(
            "{text:?} is not a URL of http or https"
        ))),
    }
}

/// An address that others can connect to: `HOST:PORT`, IPv6 in brackets, no wildcard, no port 0.
fn host_and_port(text: &str) -> Result<(String, u16), CatalogError> {
    let wrong = || CatalogError::InvalidValue(format!("{text:?} is no address that could be connected to: HOST:PORT"));
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    let bracketed = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let wildcard = bracketed
        .unwrap_or(host)
        .parse::<std::net::IpAddr>()
        .is_ok_and(|ip| ip.is_unspecified());
    // Longer than any DNS name.
    let bad = host.is_empty() || host.len() > 255 || host.contains(char::is_whitespace);
    if bad || wildcard || port == 0 || (bracketed.is_none() && host.contains(':')) {
        return Err(wrong());
    }
    Ok((bracketed.unwrap_or(host).to_owned(), port))
}

#[cfg(test)]
#[path = "replicas_test.rs"]
mod tests;
