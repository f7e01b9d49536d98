//! The two brokers, each a process of its own that ends with its handle.

use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running broker.
pub struct Broker {
    process: Child,
    /// Where clients connect.
    pub bootstrap: String,
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Broker {
    /// Process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    fn start(mut command: Command, log: &Path, bootstrap: String) -> Result<Self> {
        let out = File::create(log)?;
        let process = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("{command:?}"))?;
        let mut broker = Self { process, bootstrap };
        let start = Instant::now();
        while TcpStream::connect(&broker.bootstrap).is_err() {
            if let Some(status) = broker.process.try_wait()? {
                bail!(
                    "{command:?} ended with {status}: {}",
                    fs::read_to_string(log).unwrap_or_default()
                );
            }
            ensure!(
                start.elapsed() < Duration::from_secs(60),
                "nothing listens on {}",
                broker.bootstrap
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(broker)
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

/// Starts tessaridb and declares the namespace and database that the benches' topics live in.
pub fn start_tessaridb(binary: &Path, dir: &Path, kafka: u16, http: u16) -> Result<Broker> {
    fs::create_dir_all(dir)?;
    let command = tessaridb_command(binary, dir, kafka, http);
    let broker = Broker::start(command, &dir.join("log"), format!("127.0.0.1:{kafka}"))?;
    let script = "DEFINE NAMESPACE IF NOT EXISTS bench; USE NAMESPACE bench; DEFINE DATABASE IF NOT EXISTS bench;";
    let done = Command::new(binary)
        .args(["--at", &format!("127.0.0.1:{http}"), "-e", script])
        .output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Ok(broker)
}

/// Fetches Apache Kafka's jars by Maven where they are not there yet.
pub fn kafka_home(repository: &Path) -> Result<PathBuf> {
    let home = std::env::var_os("KAFKA_HOME").map_or_else(|| repository.join("target/kafka"), PathBuf::from);
    if !home.join("libs").is_dir() {
        let pom = repository.join("tests/differential/pom.xml");
        let status = Command::new("mvn")
            .args(["-q", "-B", "-f"])
            .arg(pom)
            .arg("dependency:copy-dependencies")
            .arg(format!("-DoutputDirectory={}", home.join("libs").display()))
            .status()
            .context("mvn")?;
        ensure!(status.success(), "mvn could not fetch Apache Kafka");
    }
    Ok(home)
}

/// Starts one KRaft node as Kafka ships it: answers do not wait for a sync.
pub fn start_kafka(home: &Path, dir: &Path, port: u16) -> Result<Broker> {
    fs::create_dir_all(dir)?;
    let controller = port + 1000;
    let properties = dir.join("server.properties");
    fs::write(
        &properties,
        format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             inter.broker.listener.name=PLAINTEXT\nlog.dirs={}\noffsets.topic.replication.factor=1\n\
             group.initial.rebalance.delay.ms=0\nauto.create.topics.enable=false\n",
            dir.join("data").display()
        ),
    )?;
    let logging = dir.join("log4j2.xml");
    fs::write(
        &logging,
        "<Configuration><Appenders><Console name=\"c\"><PatternLayout pattern=\"%d %p %m%n\"/></Console></Appenders>\
         <Loggers><Root level=\"warn\"><AppenderRef ref=\"c\"/></Root></Loggers></Configuration>",
    )?;
    let classpath = format!("{}/libs/*", home.display());
    let format = Command::new("java")
        .args([
            "-cp",
            &classpath,
            "kafka.tools.StorageTool",
            "format",
            "-t",
            "tessaridbBenchPeerNode",
            "-c",
        ])
        .arg(&properties)
        .output()?;
    ensure!(
        format.status.success(),
        "format: {}",
        String::from_utf8_lossy(&format.stderr)
    );
    let mut command = Command::new("java");
    command
        .args(["-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"])
        .args([
            "-XX:InitiatingHeapOccupancyPercent=35",
            "-XX:+ExplicitGCInvokesConcurrent",
        ])
        .arg(format!("-Dlog4j2.configurationFile={}", logging.display()))
        .args(["-cp", &classpath, "kafka.Kafka"])
        .arg(&properties);
    Broker::start(command, &dir.join("log"), format!("127.0.0.1:{port}"))
}
