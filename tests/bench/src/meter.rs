//! CPU, memory and percentiles.

use serde_json::{Map, Value, json};

/// User and system CPU seconds, resident and peak MiB of a process.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub cpu_s: f64,
    pub rss_mb: f64,
    pub peak_mb: f64,
}

/// Reads /proc; `None` once the process is gone.
pub fn usage(pid: u32) -> Option<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat[stat.rfind(')')? + 2..].split(' ').collect();
    // SAFETY: sysconf has no preconditions.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = |key: &str| -> f64 {
        let line = status.lines().find(|l| l.starts_with(key));
        line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok())
            .unwrap_or(0.0)
    };
    Some(Usage {
        cpu_s: ticks / hz,
        rss_mb: kib("VmRSS:") / 1024.0,
        peak_mb: kib("VmHWM:") / 1024.0,
    })
}

/// What several processes use together; `None` once one of them is gone.
pub fn usage_of(pids: &[u32]) -> Option<Usage> {
    pids.iter().map(|pid| usage(*pid)).reduce(|a, b| {
        let (a, b) = (a?, b?);
        Some(Usage {
            cpu_s: a.cpu_s + b.cpu_s,
            rss_mb: a.rss_mb + b.rss_mb,
            peak_mb: a.peak_mb + b.peak_mb,
        })
    })?
}

/// The brokers' use of the machine around a run.
pub struct Meter(Option<(Vec<u32>, Usage)>);

impl Meter {
    /// Starts counting.
    pub fn start(pids: &[u32]) -> Self {
        Self(usage_of(pids).map(|before| (pids.to_vec(), before)))
    }

    /// Adds what was used since, with CPU per GB of `bytes`.
    pub fn report(&self, bytes: f64, into: &mut Map<String, Value>) {
        let Some((pids, before)) = &self.0 else { return };
        let Some(after) = usage_of(pids) else { return };
        let cpu = after.cpu_s - before.cpu_s;
        into.insert("broker_cpu_s".into(), json!(round(cpu, 2)));
        if bytes > 0.0 {
            into.insert("broker_cpu_s_per_gb".into(), json!(round(cpu / (bytes / 1e9), 2)));
        }
        into.insert("rss_mb".into(), json!(after.rss_mb.round()));
        into.insert("peak_rss_mb".into(), json!(after.peak_mb.round()));
    }
}

/// Percentiles of nanoseconds, in microseconds.
pub fn percentiles(mut ns: Vec<u64>, into: &mut Map<String, Value>) {
    ns.sort_unstable();
    for (name, p) in [
        ("p50_us", 0.5),
        ("p90_us", 0.9),
        ("p99_us", 0.99),
        ("p999_us", 0.999),
        ("max_us", 1.0),
    ] {
        let at = ((ns.len() as f64 * p) as usize).min(ns.len().saturating_sub(1));
        let value = ns.get(at).map_or(Value::Null, |v| json!(round(*v as f64 / 1e3, 1)));
        into.insert(name.into(), value);
    }
}

/// `v` to `digits` places.
pub fn round(v: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (v * scale).round() / scale
}
