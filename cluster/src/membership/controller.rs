//! What the catalog's leader makes of what members tell: the rows' next state, as commands of the catalog.

use super::bulletin::Seen;
use super::placement::placement;
use super::steps::Goal;
use crate::catalog::{MemberCommand, Standing, State};
use crate::ids::{NodeId, SYSTEM_RANGE};
use std::collections::BTreeSet;

/// What the members of the system range should be: every node that may have the catalog has a copy, and those that
/// coordinate vote. `known` are the nodes that were met and are of this store.
pub fn system_goal(state: &State, known: &BTreeSet<NodeId>) -> Goal {
    let mut goal = Goal::default();
    for member in state.members() {
        let Some(node) = member.node else { continue };
        // A member that leaves keeps its copy until nothing else is left on it.
        let has = match member.standing {
            Standing::Declared => known.contains(&node),
            Standing::Joined => true,
            Standing::Leaving => state.ranges().any(|row| row.voters.contains(&node)),
        };
        match (has, member.coordinates()) {
            (false, _) => {}
            (true, true) => drop(goal.voters.insert(node)),
            (true, false) => drop(goal.learners.insert(node)),
        }
    }
    goal
}

/// What a range's members should be; `None` for one that the catalog does not have.
pub fn range_goal(state: &State, range: crate::ids::RangeId) -> Option<Goal> {
    let row = state.range(range)?;
    Some(Goal {
        voters: row.voters.iter().copied().collect(),
        learners: BTreeSet::new(),
        leader: row.leader,
    })
}

/// Commands that bring the rows of members and ranges up to what is known. None once they are.
pub fn commands(state: &State, seen: &Seen) -> Vec<MemberCommand> {
    let mut commands = tellings(state, seen);
    commands.extend(joined(state, seen));
    commands.extend(placed(state, seen));
    commands.extend(left(state, seen));
    commands
}

fn tellings(state: &State, seen: &Seen) -> Vec<MemberCommand> {
    let told = seen.bulletins.iter().filter(|(node, bulletin)| {
        let row = state.member(**node);
        seen.live.contains(node) && row.is_some_and(|member| member.told != bulletin.told)
    });
    told.map(|(node, bulletin)| MemberCommand::Tell {
        node: *node,
        told: bulletin.told.clone(),
    })
    .collect()
}

fn joined(state: &State, seen: &Seen) -> Vec<MemberCommand> {
    let declared = state.members().filter(|member| member.standing == Standing::Declared);
    declared
        .filter_map(|member| member.node)
        .filter(|node| seen.live.contains(node) && seen.catalog(*node).is_some_and(|report| report.near()))
        .map(|node| MemberCommand::Joined { node })
        .collect()
}

/// Ranges that have a leader go where they should; others wait until they have one.
fn placed(state: &State, seen: &Seen) -> Vec<MemberCommand> {
    let wanted = placement(state, &seen.live).into_iter().filter(|wanted| {
        let row = state.range(wanted.range);
        let differs = row.is_some_and(|row| row.voters != wanted.voters || row.leader != wanted.leader);
        differs && seen.range(wanted.range).is_some()
    });
    wanted
        .map(|wanted| MemberCommand::Place {
            range: wanted.range,
            voters: wanted.voters,
            leader: wanted.leader,
        })
        .collect()
}

/// Members that leave and have nothing left: no row names them, and every range's leader says so too.
fn left(state: &State, seen: &Seen) -> Vec<MemberCommand> {
    let ranges = || state.ranges().map(|row| row.id).chain([SYSTEM_RANGE]);
    let leaving = state.members().filter(|member| member.standing == Standing::Leaving);
    leaving
        .filter_map(|member| member.node)
        .filter(|node| state.ranges().all(|row| !row.voters.contains(node)))
        .filter(|node| {
            let without = |range| {
                seen.range(range)
                    .is_some_and(|report| !report.members.contains_key(node))
            };
            ranges().all(without)
        })
        .map(|node| MemberCommand::Left { node })
        .collect()
}

#[cfg(test)]
#[path = "controller_test.rs"]
mod tests;
