//! A simulation from its beginning to its end.

use crate::history::{History, Violation};
use crate::invariants::{FORMING, HEALING, LIVENESS};
use crate::node::id_of;
use crate::seeded;
use crate::trace::Trace;
use crate::workload::{Clients, Shared, Stage, Working, declare};
use crate::world::World;
use cluster::catalog::Topic;
use cluster::ids::{PartitionId, SYSTEM_RANGE};
use plan::{Fault, Plan, Weather};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use tessaridb::log::{Piece, Slice};
use tokio::sync::watch;

/// openraft 0.10.0-alpha.37 asserts, in debug builds, that what it submits to the disk never goes back; a snapshot that is
/// put to use does, where the log is ahead of it already. The range stops, and its node starts again.
const KNOWN_PANIC: &str = "expect submitted:";

/// Milliseconds between two looks at all replicas.
const COMPARE: u64 = 2_000;

/// How a simulation ended.
pub struct Outcome {
    pub violation: Option<Violation>,
    /// Milliseconds simulated.
    pub time: u64,
    /// Records acknowledged.
    pub records: usize,
    /// Number of events, and what they come to.
    pub trace: (u64, u64),
}

/// Runs a seed, on this thread alone. The process is the simulation's from then on.
pub fn run(seed: u64, nodes: usize, trace: Trace, only: Option<String>) -> Outcome {
    seeded::begin(seed);
    cluster::threads::simulate();
    let plan = Arc::new(Plan::new(seed, nodes));
    let mut world = World::new(seed, plan.clone(), trace.clone(), only);
    let history = world.history.clone();
    panic_is_violation(history);
    let ended = simulate(&mut world, &plan);
    if let Err(violation) = ended {
        world.history.violate(violation);
    }
    let records = world.history.tell(|i| Ok(i.acknowledged.count())).unwrap_or(0);
    let outcome = Outcome {
        violation: world.history.violation(),
        time: world.now,
        records,
        trace: trace.sum(),
    };
    // What is left has no meaning any more, and need not be taken down.
    std::mem::forget(world);
    outcome
}

/// A panic on any thread ends the simulation: a task that dies of one is missed by nobody else.
fn panic_is_violation(history: History) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.to_string().contains(KNOWN_PANIC) {
            history.note(format_args!("a known panic"));
            return;
        }
        history.violate(Violation {
            invariant: "panics",
            what: panic.to_string().replace('\n', " "),
        });
        usual(panic);
    }));
}

fn simulate(world: &mut World, plan: &Arc<Plan>) -> Result<(), Violation> {
    let topic = form(world, plan)?;
    let (stage, stages) = watch::channel(Stage::Faults);
    let clients = Clients {
        doors: world.doors.clone(),
        plan: plan.clone(),
        topic: topic.clone(),
        stage: stages,
        shared: Arc::new(Shared::default()),
    };
    let working = {
        let _within = world.clients.enter();
        clients.start()
    };
    befall(world, plan, &topic)?;
    heal(world, plan);
    stage.send_replace(Stage::Healed);
    let healed = world.now;
    let work = |world: &mut World, what: &str, done: &dyn Fn(&World) -> bool| {
        while !done(world) {
            if world.now > healed + HEALING {
                return Err(Violation {
                    invariant: LIVENESS,
                    what: format!("{HEALING} ms after all has healed, {what}"),
                });
            }
            ensure_up(world, plan);
            step(world, &topic)?;
        }
        Ok(())
    };
    let done = |working: &Working| working.have_produced();
    work(world, "clients still wait for an acknowledgement", &|_| done(&working))?;
    let probes = {
        let _within = world.clients.enter();
        clients.probe()
    };
    let probed = || probes.iter().all(tokio::task::JoinHandle::is_finished);
    work(world, "a partition takes no records through a node", &|_| probed())?;
    stage.send_replace(Stage::Produced);
    work(world, "readers have not come to the end", &|_| working.have_read())?;
    work(world, "replicas differ in length", &|world| {
        settled(world, plan, &topic)
    })
    .map_err(|violation| lengths(violation, world, plan, &topic))?;
    end(world, plan, &topic, &clients)
}

fn step(world: &mut World, topic: &Topic) -> Result<(), Violation> {
    world.step();
    if world.now.is_multiple_of(COMPARE) {
        compare(world, topic);
    }
    match world.history.violation() {
        Some(violation) => Err(violation),
        None => Ok(()),
    }
}

/// Nodes become members of a store that has a topic.
fn form(world: &mut World, plan: &Arc<Plan>) -> Result<Arc<Topic>, Violation> {
    for node in 0..plan.nodes {
        world.start(node);
    }
    let (send, mut topic) = tokio::sync::oneshot::channel();
    let forming = declare(world.doors.clone(), plan.clone());
    world.clients.spawn(async move {
        let _ = send.send(forming.await);
    });
    loop {
        world.step();
        if let Some(violation) = world.history.violation() {
            return Err(violation);
        }
        if let Ok(topic) = topic.try_recv() {
            return Ok(topic);
        }
        if world.now > FORMING {
            return Err(Violation {
                invariant: LIVENESS,
                what: format!("the store does not form in {FORMING} ms"),
            });
        }
    }
}

/// All faults of the plan, to the last.
fn befall(world: &mut World, plan: &Plan, topic: &Topic) -> Result<(), Violation> {
    let begin = world.now;
    let mut coming = plan.episodes.iter().peekable();
    let mut under_way = Vec::new();
    while world.now < begin + plan.length {
        let now = world.now - begin;
        under_way.retain(|episode: &&plan::Episode| {
            let ends = episode.until <= now;
            if ends {
                ends_fault(world, &episode.fault);
            }
            !ends
        });
        while let Some(episode) = coming.next_if(|episode| episode.at <= now) {
            world.history.note(format_args!("{:?}", episode.fault));
            begins(world, plan, &episode.fault);
            under_way.push(episode);
        }
        step(world, topic)?;
    }
    Ok(())
}

fn begins(world: &mut World, plan: &Plan, fault: &Fault) {
    match fault {
        Fault::Cut { side, both, reset } => {
            for one in side {
                for other in (0..plan.nodes).filter(|node| !side.contains(node)) {
                    let (one, other) = (id_of(*one), id_of(other));
                    world.net.hold(one, other);
                    if *both {
                        world.net.hold(other, one);
                    }
                    if *reset {
                        world.net.reset(one, other);
                    }
                }
            }
        }
        Fault::Storm(weather) => world.net.weather(*weather),
        Fault::Kill { node, power, silent } => world.kill(*node, *power, *silent),
        Fault::Blackout => (0..plan.nodes).for_each(|node| world.kill(node, true, true)),
        Fault::Pause { node } => world.pause(*node, true),
        Fault::DiskError { node, after } => world.fail_sync(*node, *after),
        Fault::HandOver { range, to } => hand_over(world, plan, *range, *to),
    }
}

fn ends_fault(world: &mut World, fault: &Fault) {
    match fault {
        Fault::Cut { .. } => world.net.free_all(),
        Fault::Storm(_) => world.net.weather(Weather::CALM),
        Fault::Kill { node, .. } | Fault::DiskError { node, .. } => world.start(*node),
        Fault::Blackout => (0..world.doors.count()).for_each(|node| world.start(node)),
        Fault::Pause { node } => world.pause(*node, false),
        Fault::HandOver { .. } => {}
    }
}

/// Whoever leads the range, hands it over.
fn hand_over(world: &World, plan: &Plan, range: usize, to: usize) {
    for node in 0..plan.nodes {
        world.command(node, |open| {
            let view = open.broker.catalog().view();
            let ranges: Vec<_> = view.ranges().map(|row| row.id).chain([SYSTEM_RANGE]).collect();
            let id = ranges[range % ranges.len()];
            let host = open.host.clone();
            async move {
                let leads = host.range(id).is_some_and(|range| range.leadership().borrow().here);
                if leads {
                    let _ = host.transfer_leader(id, id_of(to)).await;
                }
            }
        });
    }
}

/// All faults are over.
fn heal(world: &mut World, plan: &Plan) {
    world.history.note(format_args!("healed"));
    world.net.free_all();
    world.net.weather(Weather::CALM);
    for node in 0..plan.nodes {
        world.pause(node, false);
    }
    ensure_up(world, plan);
}

fn ensure_up(world: &mut World, plan: &Plan) {
    for node in 0..plan.nodes {
        if !world.is_up(node) {
            world.start(node);
        }
    }
}

/// Where the replicas of a partition begin and end.
fn ends(world: &World, topic: &Topic, index: u32) -> BTreeMap<u128, (i64, i64)> {
    let partition = PartitionId { topic: topic.id, index };
    let nodes = (0..world.doors.count()).filter_map(|node| world.open(node));
    nodes
        .map(|node| {
            let log = node.logs.get(partition);
            (node.id.0, log.map_or((0, 0), |log| (log.log_start(), log.log_end())))
        })
        .collect()
}

/// Whether all replicas hold as much.
fn settled(world: &World, plan: &Plan, topic: &Topic) -> bool {
    (0..plan.partitions).all(|partition| {
        let ends = ends(world, topic, partition);
        let mut all = ends.values();
        let first = all.next();
        ends.len() == plan.nodes && all.all(|end| Some(end) == first)
    })
}

/// Adds to it how much each node holds of the partitions that are not settled.
fn lengths(violation: Violation, world: &World, plan: &Plan, topic: &Topic) -> Violation {
    if violation.invariant != LIVENESS {
        return violation;
    }
    let all = (0..plan.partitions).map(|partition| (partition, ends(world, topic, partition)));
    let apart: Vec<_> = all
        .filter(|(_, ends)| ends.len() != plan.nodes || ends.values().any(|end| Some(end) != ends.values().next()))
        .collect();
    Violation {
        what: format!("{}: {apart:?}", violation.what),
        ..violation
    }
}

/// Reads all replicas and compares them.
fn compare(world: &World, topic: &Topic) {
    for node in (0..world.doors.count()).filter_map(|node| world.open(node)) {
        for index in 0..topic.partitions.len() as u32 {
            let partition = PartitionId { topic: topic.id, index };
            let Some(log) = node.logs.get(partition) else { continue };
            let mut offset = log.log_start();
            while offset < log.log_end() {
                // A node that is being crashed or fills up from a snapshot reads nothing now.
                let Ok(slice) = log.read(offset, 1, true) else { break };
                let Ok(sum) = sum(&slice) else { break };
                if slice.bytes == 0 {
                    break;
                }
                let base = slice.next;
                world.history.tell(|i| i.replicas.hold(index, base, sum, node.id.0));
                offset = slice.next;
            }
        }
    }
}

fn sum(slice: &Slice) -> std::io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    for piece in &slice.pieces {
        match piece {
            Piece::Memory(bytes) => hasher.write(bytes),
            Piece::File { file, position, len } => {
                let mut bytes = vec![0; *len];
                file.read_exact_at(&mut bytes, *position)?;
                hasher.write(&bytes);
            }
        }
    }
    Ok(hasher.finish())
}

/// What must hold in the end.
fn end(world: &World, plan: &Plan, topic: &Topic, clients: &Clients) -> Result<(), Violation> {
    compare(world, topic);
    for partition in 0..plan.partitions {
        let ends = ends(world, topic, partition);
        world.history.tell(|i| i.replicas.end(partition, &ends));
        for (start, end) in ends.values() {
            world.history.tell(|i| i.watermarks.end(partition, *end, *start));
        }
    }
    let sent = clients.shared.sent.lock().clone();
    world.history.tell(|i| i.acknowledged.end(&sent));
    match world.history.violation() {
        Some(violation) => Err(violation),
        None => Ok(()),
    }
}
