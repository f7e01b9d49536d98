//! A run: a cluster is formed, clients work, faults come and go, and what the clients saw is judged.

use crate::check::{Wrong, check};
use crate::faults::{Fault, Schedule, Tools};
use crate::history::{self, Event, Recorder};
use crate::member::{self, Member, Place};
use crate::net::Net;
use crate::work::{self, GROUP, Scene};
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Partitions of the topic.
const PARTITIONS: i32 = 6;
/// Members of the group.
const CONSUMERS: u64 = 2;
/// Forming, and coming to rest after the last fault, take no longer.
const PATIENCE: Duration = Duration::from_secs(180);
/// What works again is watched for so long before the end.
const AFTER: Duration = Duration::from_secs(5);

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program under test.
    pub program: PathBuf,
    /// A folder for all that is made; what is in it afterwards tells what happened.
    pub folder: PathBuf,
    /// Members, at least three.
    pub members: usize,
    /// How long faults come and go.
    pub length: Duration,
    /// What they are drawn from.
    pub seed: u64,
    /// Which there are.
    pub tools: Tools,
    /// The library that sets clocks, for [`Tools::clock`].
    pub clock: Option<PathBuf>,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What is wrong; nothing, if all is well.
    pub wrong: Vec<Wrong>,
    /// Where the history is.
    pub history: PathBuf,
    /// Records that were acknowledged.
    pub acknowledged: usize,
    /// Steps of faults.
    pub steps: usize,
}

struct Store {
    members: Vec<Member>,
    net: Option<Net>,
}

/// Runs the plan. Ends by itself, in little more than its length. To be called on a thread that lives as long as the members
/// should, as they end with it.
///
/// # Errors
/// The cluster could not be formed, a member ended by itself, or the machine refused something: nothing was judged.
pub fn run(plan: &Plan) -> anyhow::Result<Outcome> {
    ensure!(plan.members >= 3, "three members at least");
    std::fs::create_dir_all(&plan.folder)?;
    let history = plan.folder.join("history");
    let recorder = Arc::new(Recorder::create(&history)?);
    let mut store = Store::form(plan)?;
    let scene = Scene {
        recorder: recorder.clone(),
        members: store.members.iter().map(Member::kafka).collect(),
        partitions: PARTITIONS,
    };
    recorder.add(&Event::Began {
        members: (0..plan.members as u32).collect(),
        partitions: PARTITIONS,
        groups: vec![GROUP.into()],
    });
    let producers = work::producers(&scene)?;
    let group = work::group(&scene, CONSUMERS);
    let askers = work::askers(&scene);
    let end = Instant::now() + plan.length;
    let mut steps = 0;
    for step in Schedule::new(plan.seed, plan.members, plan.tools) {
        for fault in &step.faults {
            let at = recorder.now();
            eprintln!("{:>8} ms  {fault}", at);
            recorder.add(&Event::Fault {
                at,
                text: fault.to_string(),
            });
            store.inflict(*fault)?;
        }
        std::thread::sleep(step.hold);
        for fault in &step.faults {
            store.heal(*fault)?;
        }
        let at = recorder.now();
        recorder.add(&Event::Fault {
            at,
            text: "healed".into(),
        });
        steps += 1;
        if Instant::now() >= end {
            break;
        }
        std::thread::sleep(step.quiet);
        store.live()?;
    }
    recorder.add(&Event::Healed { at: recorder.now() });
    eprintln!("{:>8} ms  all is healed", recorder.now());
    std::thread::sleep(AFTER);
    producers.finish()?;
    let start = Instant::now();
    while start.elapsed() < PATIENCE && !(0..plan.members).all(|via| work::is_at_end(&scene, via)) {
        std::thread::sleep(Duration::from_millis(200));
    }
    group.finish()?;
    work::read_all(&scene, PATIENCE);
    askers.finish()?;
    store.live()?;
    recorder.flush()?;
    let events = history::read(&history)?;
    let acknowledged = events.iter().filter(|e| matches!(e, Event::Acknowledged { .. }));
    Ok(Outcome {
        wrong: check(&events),
        acknowledged: acknowledged.count(),
        history,
        steps,
    })
}

impl Store {
    fn form(plan: &Plan) -> anyhow::Result<Self> {
        let net = plan.tools.net.then(|| Net::new(plan.members)).transpose()?;
        let address = |member| {
            net.as_ref()
                .map_or_else(|| "127.0.0.1".into(), |net| net.address(member))
        };
        let addresses: Vec<String> = (0..plan.members).map(address).collect();
        let pki = plan.folder.join("pki");
        let mut names = addresses.clone();
        names.dedup();
        member::certificates(&plan.program, &pki, &names)?;
        let place = |member: usize| Place {
            program: plan.program.clone(),
            folder: plan.folder.join(format!("m{member}")),
            pki: pki.clone(),
            address: addresses[member].clone(),
            namespace: net.as_ref().map(|net| net.namespace(member)),
            disk: plan.tools.disk,
            clock: plan.clock.clone().filter(|_| plan.tools.clock),
        };
        let members = (0..plan.members).map(|member| Member::new(member, place(member)));
        let members = members.collect::<anyhow::Result<_>>()?;
        let mut store = Self { members, net };
        for member in &mut store.members {
            member.start()?;
        }
        let rows: Vec<String> = store.members.iter().map(Member::row).collect();
        let first = &store.members[0];
        for row in rows {
            first.script(&row)?;
        }
        store.until("all vote", "INFO FOR NODE", |told| {
            told.matches("state: 'voting'").count() == plan.members
        })?;
        first.script(&format!(
            "DEFINE NAMESPACE shop; USE NAMESPACE shop; DEFINE DATABASE orders; USE DATABASE orders; \
             DEFINE TOPIC work PARTITIONS {PARTITIONS} BY id;"
        ))?;
        let topic = "USE NAMESPACE shop DATABASE orders; INFO FOR TOPIC work";
        store.until("each partition has a leader", topic, |told| {
            told.matches("leader: '").count() == PARTITIONS as usize
        })?;
        Ok(store)
    }

    fn until(&self, what: &str, script: &str, holds: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let start = Instant::now();
        for member in &self.members {
            while !member.script(script).is_ok_and(|told| holds(&told)) {
                ensure!(start.elapsed() < PATIENCE, "waited in vain: {what}");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// All that should run do.
    fn live(&mut self) -> anyhow::Result<()> {
        for member in &mut self.members {
            if let Some(status) = member.ended()? {
                anyhow::bail!("a member ended with {status}: {}", member.log().display());
            }
        }
        Ok(())
    }

    fn net(&self) -> anyhow::Result<&Net> {
        self.net.as_ref().context("no network of its own")
    }

    fn inflict(&mut self, fault: Fault) -> anyhow::Result<()> {
        match fault {
            Fault::Kill { member } => {
                self.members[member].kill();
                Ok(())
            }
            Fault::Pause { member } => {
                self.members[member].pause(true);
                Ok(())
            }
            Fault::Cut { member } => self.net()?.cut(member, true),
            Fault::CutWay { from, to } => self.net()?.cut_way(from, to, true),
            Fault::Slow { member, kilobits } => self.net()?.slow(member, Some(kilobits)),
            Fault::Full { member } => self.members[member].fill(true),
            Fault::Clock { member, seconds } => self.members[member].set_clock(seconds),
        }
    }

    fn heal(&mut self, fault: Fault) -> anyhow::Result<()> {
        match fault {
            Fault::Kill { member } => self.members[member].spawn(),
            Fault::Pause { member } => {
                self.members[member].pause(false);
                Ok(())
            }
            Fault::Cut { member } => self.net()?.cut(member, false),
            Fault::CutWay { from, to } => self.net()?.cut_way(from, to, false),
            Fault::Slow { member, .. } => self.net()?.slow(member, None),
            Fault::Full { member } => self.members[member].fill(false),
            Fault::Clock { member, .. } => self.members[member].set_clock(0),
        }
    }
}

/// Judges the history of an earlier run.
///
/// # Errors
/// The history can't be read.
pub fn judge(history: &Path) -> anyhow::Result<Vec<Wrong>> {
    Ok(check(&history::read(history)?))
}
