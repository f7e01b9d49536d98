//! Apache Kafka as the peer: one KRaft node on a fresh folder. Needs Java 17 and, the first time, Maven.

use crate::session::quiet;
use anyhow::{Context, Result, bail, ensure};
use kafka_protocol::messages::{FindCoordinatorRequest, InitProducerIdRequest, JoinGroupRequest, ProducerId};
use kafka_protocol::protocol::StrBytes;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running Kafka, killed when dropped.
pub struct Kafka {
    /// Where it listens.
    pub address: SocketAddr,
    process: Child,
    _folder: TempDir,
}

/// A port of 127.0.0.1 nobody listens on now.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

impl Kafka {
    /// Fetches Kafka's jars if they are not there, starts a node and waits until it answers everything.
    pub fn start() -> Result<Self> {
        let libs = jars()?;
        let folder = tempfile::tempdir()?;
        let (port, controller) = (free_port()?, free_port()?);
        let properties = folder.path().join("server.properties");
        fs::write(
            &properties,
            server_properties(port, controller, &folder.path().join("data")),
        )?;
        let logging = folder.path().join("log4j2.xml");
        fs::write(&logging, LOGGING)?;
        let classes = format!("{}/*", libs.display());
        let formatted = Command::new("java")
            .args([
                "-cp",
                &classes,
                "kafka.tools.StorageTool",
                "format",
                "-t",
                "MkU3OEVBNTcwNTJENDM2Qk",
                "-c",
            ])
            .arg(&properties)
            .output()
            .context("java is needed to run Apache Kafka")?;
        ensure!(
            formatted.status.success(),
            "formatting: {}",
            String::from_utf8_lossy(&formatted.stderr)
        );
        let log = fs::File::create(folder.path().join("kafka.log"))?;
        let mut process = Command::new("java")
            .args(["-Xmx512M", "-Xms256M", "-XX:+UseSerialGC"])
            .arg(format!("-Dlog4j2.configurationFile={}", logging.display()))
            .args(["-cp", &classes, "kafka.Kafka"])
            .arg(&properties)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let deadline = Instant::now() + Duration::from_secs(90);
        while TcpStream::connect(address).is_err() {
            if let Some(status) = process.try_wait()? {
                let log = fs::read_to_string(folder.path().join("kafka.log")).unwrap_or_default();
                bail!("Kafka ended with {status}: {log}");
            }
            ensure!(Instant::now() < deadline, "Kafka does not listen");
            std::thread::sleep(Duration::from_millis(100));
        }
        let kafka = Kafka {
            address,
            process,
            _folder: folder,
        };
        kafka.warm_up(deadline)?;
        Ok(kafka)
    }

    /// Waits until the coordinators and the producer-id blocks are there: a young node refuses them for a while.
    fn warm_up(&self, deadline: Instant) -> Result<()> {
        let text = StrBytes::from_static_str;
        let find = FindCoordinatorRequest::default().with_key(text("warm_up"));
        let find_transaction = find.clone().with_key_type(1);
        let join = JoinGroupRequest::default()
            .with_group_id(text("warm_up").into())
            .with_session_timeout_ms(10_000)
            .with_member_id(text("nobody"))
            .with_protocol_type(text("consumer"));
        let init = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        loop {
            let ready = quiet(self.address, 2, &find).is_ok_and(|answer| answer.error_code == 0)
                && quiet(self.address, 2, &find_transaction).is_ok_and(|answer| answer.error_code == 0)
                && quiet(self.address, 2, &join).is_ok_and(|answer| ![14, 15, 16].contains(&answer.error_code))
                && quiet(self.address, 2, &init).is_ok_and(|answer| answer.error_code == 0);
            if ready {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "Kafka is not ready");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The folder of Kafka's jars: `$KAFKA_HOME/libs`, by default `target/kafka/libs` of the workspace.
fn jars() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let home = match std::env::var_os("KAFKA_HOME") {
        Some(home) => PathBuf::from(home),
        None => here.join("../../target/kafka"),
    };
    let libs = home.join("libs");
    if !libs.is_dir() {
        let fetched = Command::new("mvn")
            .args(["-q", "-B", "-f"])
            .arg(here.join("pom.xml"))
            .arg("dependency:copy-dependencies")
            .arg(format!("-DoutputDirectory={}", std::path::absolute(&libs)?.display()))
            .stdout(Stdio::null())
            .status()
            .context("mvn is needed to fetch Apache Kafka")?;
        ensure!(fetched.success(), "mvn could not fetch Apache Kafka");
    }
    Ok(libs)
}

/// As Kafka ships, but for what one small node needs, and no delay before the first rebalance.
fn server_properties(port: u16, controller: u16, data: &Path) -> String {
    format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         inter.broker.listener.name=PLAINTEXT\n\
         log.dirs={}\n\
         offsets.topic.replication.factor=1\n\
         offsets.topic.num.partitions=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n\
         group.initial.rebalance.delay.ms=0\n\
         auto.create.topics.enable=false\n",
        data.display()
    )
}

const LOGGING: &str = r#"<Configuration><Appenders><Console name="c"><PatternLayout pattern="%d %p %m%n"/></Console></Appenders>
<Loggers><Root level="warn"><AppenderRef ref="c"/></Root></Loggers></Configuration>"#;
