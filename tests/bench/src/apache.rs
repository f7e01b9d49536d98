//! Apache Kafka, as it ships.

use crate::peer::Brokers;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Starts `nodes` KRaft nodes, the first on `port`, as Kafka ships: answers do not wait for a sync. Several replicate every
/// partition, and answer once two of them have a record.
pub fn start_kafka(home: &Path, dir: &Path, nodes: u16, port: u16) -> Result<Brokers> {
    fs::create_dir_all(dir)?;
    let logging = dir.join("log4j2.xml");
    fs::write(
        &logging,
        "<Configuration><Appenders><Console name=\"c\"><PatternLayout pattern=\"%d %p %m%n\"/></Console></Appenders>\
         <Loggers><Root level=\"warn\"><AppenderRef ref=\"c\"/></Root></Loggers></Configuration>",
    )?;
    let classpath = format!("{}/libs/*", home.display());
    let (mut brokers, mut logs) = (Brokers::default(), Vec::new());
    for n in 0..nodes {
        let own = dir.join(n.to_string());
        fs::create_dir_all(&own)?;
        let properties = own.join("server.properties");
        fs::write(&properties, server_properties(&own, nodes, port, n))?;
        let mut format = Command::new("java");
        let format = format.args(["-cp", &classpath, "kafka.tools.StorageTool", "format"]);
        let format = format.args(["-t", "tessaridbBenchPeerNode", "-c"]).arg(&properties);
        let formatted = format.output()?;
        let why = String::from_utf8_lossy(&formatted.stderr);
        ensure!(formatted.status.success(), "format: {why}");
        let mut command = Command::new("java");
        let heap = if nodes > 1 { "-Xms512M" } else { "-Xms1G" };
        command
            .args(["-Xmx1G", heap, "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"])
            .args([
                "-XX:InitiatingHeapOccupancyPercent=35",
                "-XX:+ExplicitGCInvokesConcurrent",
            ])
            .arg(format!("-Dlog4j2.configurationFile={}", logging.display()))
            .args(["-cp", &classpath, "kafka.Kafka"])
            .arg(&properties);
        logs.push(own.join("log"));
        brokers.start(command, &own.join("log"), port + n)?;
    }
    brokers.wait(&logs)?;
    Ok(brokers)
}

fn server_properties(dir: &Path, nodes: u16, first: u16, n: u16) -> String {
    let voters: Vec<String> = (0..nodes)
        .map(|n| format!("{}@127.0.0.1:{}", n + 1, first + 1000 + n))
        .collect();
    let (id, port, controller) = (n + 1, first + n, first + 1000 + n);
    format!(
        "process.roles=broker,controller\nnode.id={id}\ncontroller.quorum.voters={}\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         inter.broker.listener.name=PLAINTEXT\nlog.dirs={}\noffsets.topic.replication.factor={nodes}\n\
         default.replication.factor={nodes}\nmin.insync.replicas={}\n\
         group.initial.rebalance.delay.ms=0\nauto.create.topics.enable=false\n",
        voters.join(","),
        dir.join("data").display(),
        nodes / 2 + 1,
    )
}
