//! That each invariant can fail: every planted bug is noticed by the one that it breaks.

use crate::campaign::{self, Job, Ran};
use cluster::planted::Bug;
use parking_lot::Mutex;

/// Seeds tried before a bug counts as not noticed.
const SEEDS: u64 = 60;

/// The invariants of which one must notice a bug.
fn noticed_by(bug: Bug) -> &'static [&'static str] {
    match bug {
        Bug::AckBeforeSync => &["acknowledged", "watermarks", "answers"],
        Bug::ForgottenVote | Bug::LeadsUnelected => &["leaders"],
        Bug::RepeatsStored => &["acknowledged"],
        Bug::SkippedAppend => &["replicas", "acknowledged"],
        Bug::UnevenStamp => &["offsets", "replicas"],
        Bug::ReadWithoutLead => &["watermarks"],
        Bug::UnsavedPositions => &["positions"],
        Bug::SkippedDeclaration => &["catalog"],
        Bug::FirstLeaderForEver => &["liveness"],
    }
}

/// Whether every bug is noticed.
pub fn all() -> anyhow::Result<bool> {
    let mut well = true;
    for bug in Bug::ALL {
        well &= is_noticed(bug)?;
    }
    Ok(well)
}

fn is_noticed(bug: Bug) -> anyhow::Result<bool> {
    let job = |seed| Job {
        seed,
        nodes: 3,
        plant: Some(format!("{bug:?}")),
    };
    let wanted = noticed_by(bug);
    let found = Mutex::new(None);
    campaign::run((1..=SEEDS).map(job).collect(), |ran: &Ran| {
        let by = ran.broke.as_deref().unwrap_or_default();
        let noticed = wanted.contains(&by);
        if noticed {
            found.lock().get_or_insert_with(|| ran.clone());
        } else if ran.broke.is_some() {
            println!("{bug:?}, seed {}: {}", ran.job.seed, ran.said);
        }
        !noticed
    })?;
    let found = found.into_inner();
    match &found {
        Some(ran) => println!("{bug:?} is noticed: {}", ran.said),
        None => println!("{bug:?} is not noticed by {wanted:?} in {SEEDS} seeds"),
    }
    Ok(found.is_some())
}
