//! tessaridb as the one under test: a real process on a fresh folder.

use crate::kafka::free_port;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running tessaridb, killed when dropped.
pub struct Tessari {
    /// Where it speaks the Kafka protocol.
    pub address: SocketAddr,
    process: Child,
    folder: TempDir,
}

impl Tessari {
    /// Starts `binary` and declares the namespace and database the scenarios' topics are named in.
    pub fn start(binary: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (http, kafka) = (free_port()?, free_port()?);
        let log = fs::File::create(folder.path().join("tessaridb.log"))?;
        let process = Command::new(binary)
            .arg(folder.path().join("data"))
            .args([
                "--serve",
                &format!("127.0.0.1:{http}"),
                "--kafka",
                &format!("127.0.0.1:{kafka}"),
            ])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, kafka));
        let mut tessari = Tessari {
            address,
            process,
            folder,
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(address).is_err() {
            if let Some(status) = tessari.process.try_wait()? {
                bail!("tessaridb ended with {status}: {}", tessari.log());
            }
            ensure!(
                Instant::now() < deadline,
                "tessaridb does not listen: {}",
                tessari.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let script = "DEFINE NAMESPACE d; USE NAMESPACE d; DEFINE DATABASE d";
        let answer = post(SocketAddr::from((Ipv4Addr::LOCALHOST, http)), script)?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{script}: {answer}");
        Ok(tessari)
    }

    /// What the process has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("tessaridb.log")).unwrap_or_default()
    }

    /// Whether the process still runs.
    pub fn alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }
}

impl Drop for Tessari {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn post(address: SocketAddr, script: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(
        stream,
        "POST /script HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\n\r\n{script}",
        script.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
