//! Brokers to measure, processes of their own that end with their handle; and how tessaridb is started.

use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take to be ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// Running brokers of one cluster.
#[derive(Default)]
pub struct Brokers {
    processes: Vec<Child>,
    addresses: Vec<String>,
}

impl Drop for Brokers {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Brokers {
    /// Process ids.
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(Child::id).collect()
    }

    /// Where clients connect.
    pub fn bootstrap(&self) -> String {
        self.addresses.join(",")
    }

    /// Starts one more, which is to listen on `port`.
    pub fn start(&mut self, mut command: Command, log: &Path, port: u16) -> Result<()> {
        let out = File::create(log)?;
        let process = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("{command:?}"))?;
        self.processes.push(process);
        self.addresses.push(format!("127.0.0.1:{port}"));
        Ok(())
    }

    /// Waits until every one listens; the logs of those that end are told.
    pub fn wait(&mut self, logs: &[PathBuf]) -> Result<()> {
        let start = Instant::now();
        for ((process, address), log) in self.processes.iter_mut().zip(&self.addresses).zip(logs) {
            while TcpStream::connect(address).is_err() {
                if let Some(status) = process.try_wait()? {
                    bail!("ended with {status}: {}", fs::read_to_string(log).unwrap_or_default());
                }
                ensure!(start.elapsed() < PATIENCE, "nothing listens on {address}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }
}

/// The command line of a tessaridb node.
pub fn tessaridb_command(binary: &Path, dir: &Path, kafka: u16, http: u16) -> Command {
    let mut command = Command::new(binary);
    command.arg(dir.join("data"));
    command.args([
        "--serve",
        &format!("127.0.0.1:{http}"),
        "--kafka",
        &format!("127.0.0.1:{kafka}"),
    ]);
    command
}

/// Starts `nodes` of tessaridb, the first on the ports given, makes one store of them, and declares the namespace and
/// database that the benches' topics live in.
pub fn start_tessaridb(binary: &Path, dir: &Path, nodes: u16, kafka: u16, http: u16) -> Result<Brokers> {
    fs::create_dir_all(dir)?;
    if nodes > 1 {
        let mut command = Command::new(binary);
        let done = command.arg("certs").arg(dir).args(["--node", "node"]).output()?;
        ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let (mut brokers, mut logs) = (Brokers::default(), Vec::new());
    for n in 0..nodes {
        let own = if nodes > 1 {
            dir.join(n.to_string())
        } else {
            dir.to_path_buf()
        };
        fs::create_dir_all(&own)?;
        let mut command = tessaridb_command(binary, &own, kafka + n, http + n);
        if nodes > 1 {
            command.args(["--node-id", &node_id(n), "--cluster-address", &peer_address(http, n)]);
            command.arg("--cluster-credential").arg(dir.join("node.pem"));
            command.arg("--cluster-key").arg(dir.join("node.key"));
            command.arg("--cluster-authority").arg(dir.join("ca.pem"));
        }
        logs.push(own.join("log"));
        brokers.start(command, &own.join("log"), kafka + n)?;
    }
    brokers.wait(&logs)?;
    if nodes > 1 {
        for n in 0..nodes {
            let (at, id) = (peer_address(http, n), node_id(n));
            script(binary, http, &format!("DEFINE REPLICA m{n} AT '{at}' NODE '{id}'"))?;
        }
        let start = Instant::now();
        while script(binary, http, "INFO FOR NODE")?.matches("'voting'").count() < nodes.into() {
            ensure!(start.elapsed() < PATIENCE, "the members do not come together");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let declare = format!(
        "DEFINE NAMESPACE IF NOT EXISTS bench {}; USE NAMESPACE bench; DEFINE DATABASE IF NOT EXISTS bench;",
        if nodes > 1 {
            format!("REPLICATION FACTOR {nodes}")
        } else {
            String::new()
        }
    );
    script(binary, http, &declare)?;
    Ok(brokers)
}

/// Node id of the member started as number `n`.
pub fn node_id(n: u16) -> String {
    format!("{:032x}", 0xbe_0000 + u32::from(n))
}

fn peer_address(http: u16, n: u16) -> String {
    format!("127.0.0.1:{}", http + 100 + n)
}

/// Runs TessariQL on the node whose HTTP port is given; what it prints.
pub fn script(binary: &Path, http: u16, text: &str) -> Result<String> {
    let mut command = Command::new(binary);
    let done = command
        .args(["--at", &format!("127.0.0.1:{http}"), "-e", text])
        .output()?;
    ensure!(
        done.status.success(),
        "{text}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
