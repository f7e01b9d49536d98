//! Running all scenarios against one server.

use crate::recording;
use crate::scenarios::{self, Scenario};
use crate::session::{Exchange, Session};
use crate::{allowed, compare};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Exchanges by scenario.
pub type Runs = BTreeMap<String, Vec<Exchange>>;

/// The scenarios whose name contains one of `filters`; all without any.
pub fn chosen(filters: &[String]) -> Vec<Scenario> {
    let fits = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    scenarios::all()
        .into_iter()
        .filter(|scenario| fits(scenario.name))
        .collect()
}

/// Runs `chosen` one after the other. A scenario that can't go on keeps what it exchanged until then.
pub fn all(address: SocketAddr, chosen: &[Scenario]) -> Result<Runs> {
    let mut runs = Runs::new();
    for scenario in chosen {
        let began = Instant::now();
        let mut session = Session::new(address, scenario.name)?;
        let outcome = (scenario.run)(&mut session);
        let mut exchanges = session.finish();
        if let Err(error) = outcome {
            eprintln!("{} stopped: {error:#}", scenario.name);
            exchanges.push(Exchange {
                step: "the scenario goes on to its end".to_owned(),
                api: -1,
                version: -1,
                answer: format!("{error:#}").into(),
            });
        }
        if began.elapsed() > Duration::from_secs(5) {
            eprintln!(
                "{}: {} exchanges in {:?}",
                scenario.name,
                exchanges.len(),
                began.elapsed()
            );
        }
        runs.insert(scenario.name.to_owned(), exchanges);
    }
    Ok(runs)
}

/// Kafka's recorded answers for `chosen`.
pub fn recorded(chosen: &[Scenario]) -> Result<Runs> {
    let folder = recording::folder();
    chosen
        .iter()
        .map(|scenario| Ok((scenario.name.to_owned(), recording::read(&folder, scenario.name)?)))
        .collect()
}

/// All differences between two runs of the same scenarios.
pub fn differences(kafka: &Runs, ours: &Runs) -> Result<Vec<compare::Difference>> {
    let mut found = Vec::new();
    for (scenario, theirs) in kafka {
        let mine = ours.get(scenario).with_context(|| format!("{scenario} was not run"))?;
        found.extend(compare::runs(scenario, theirs, mine));
    }
    Ok(found)
}

/// Prints what stands against the rows; true if nothing does. With a choice of scenarios, rows that cover too little are
/// no fault.
pub fn judge(found: &[compare::Difference], whole: bool) -> Result<bool> {
    let rows = allowed::rows()?;
    let judged = allowed::judge(&rows, found);
    for difference in &judged.unexplained {
        println!("{difference}");
    }
    if whole {
        for stale in &judged.stale {
            println!("no difference for row {stale}");
        }
        for (title, said, covered) in &judged.miscounted {
            println!("row {title:?} says {said} differences and covers {covered}");
        }
    }
    println!(
        "{} differences, {} explained by {} rows, {} not; {} patterns without a difference, {} rows with another number",
        found.len(),
        judged.covered.iter().sum::<usize>(),
        rows.len(),
        judged.unexplained.len(),
        judged.stale.len(),
        judged.miscounted.len(),
    );
    Ok(judged.unexplained.is_empty() && (!whole || judged.stale.is_empty() && judged.miscounted.is_empty()))
}
