//! A member under test: its process, its disk, its clock.

use anyhow::{Context, bail, ensure};
use rand::Rng;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process must answer after this time.
const START: Duration = Duration::from_secs(120);
/// Space of a disk that can be filled; a member refuses records with less than 256 MiB free.
const DISK: &str = "1g";

/// Where a member is to run.
pub struct Place {
    /// The program.
    pub program: PathBuf,
    /// A folder of its own.
    pub folder: PathBuf,
    /// Certificates: `ca.pem`, and one named after each address.
    pub pki: PathBuf,
    /// Its address.
    pub address: String,
    /// A network namespace.
    pub namespace: Option<String>,
    /// A disk of its own, which can be filled.
    pub disk: bool,
    /// A library that lets its clock be set, if there is one.
    pub clock: Option<PathBuf>,
}

/// The member.
pub struct Member {
    number: usize,
    place: Place,
    ports: [u16; 3],
    child: Option<Child>,
    agent: ureq::Agent,
    mounted: bool,
}

impl Member {
    /// A member that does not run yet.
    ///
    /// # Errors
    /// Its folder or disk can't be made.
    pub fn new(number: usize, place: Place) -> anyhow::Result<Self> {
        let ports = match &place.namespace {
            // All ports of a namespace are free.
            Some(_) => [9080, 9092, 9180],
            None => [free_port(), free_port(), free_port()],
        };
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(10)))
            .http_status_as_error(false)
            .build()
            .into();
        let mut member = Self {
            number,
            place,
            ports,
            child: None,
            agent,
            mounted: false,
        };
        fs::create_dir_all(member.disk())?;
        if member.place.disk {
            let disk = member.disk();
            let size = format!("size={DISK}");
            let done = Command::new("mount")
                .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
                .arg(&disk)
                .status()?;
            ensure!(done.success(), "no disk at {}", disk.display());
            member.mounted = true;
        }
        member.set_clock(0)?;
        Ok(member)
    }

    /// Where clients reach it.
    ///
    /// # Panics
    /// Never: addresses are numbers.
    pub fn kafka(&self) -> SocketAddr {
        format!("{}:{}", self.place.address, self.ports[1])
            .parse()
            .expect("an address of numbers")
    }

    /// Its id, which it has from the beginning.
    pub fn id(&self) -> String {
        format!("{:032x}", 0xc4a05 + self.number)
    }

    /// The statement that makes it a member.
    pub fn row(&self) -> String {
        let (address, peer, id) = (&self.place.address, self.ports[2], self.id());
        format!("DEFINE REPLICA m{} AT '{address}:{peer}' NODE '{id}'", self.number)
    }

    /// Where its log is.
    pub fn log(&self) -> PathBuf {
        self.place.folder.join("log")
    }

    fn disk(&self) -> PathBuf {
        self.place.folder.join("disk")
    }

    /// Starts it; it may not answer yet.
    ///
    /// # Errors
    /// It can't be started.
    pub fn spawn(&mut self) -> anyhow::Result<()> {
        ensure!(self.child.is_none(), "member {} runs already", self.number);
        let Place {
            program,
            pki,
            address,
            namespace,
            ..
        } = &self.place;
        let mut command = match namespace {
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(program);
                command
            }
            None => Command::new(program),
        };
        let at = |port: u16| format!("{address}:{port}");
        let file = |name: &str| pki.join(name).display().to_string();
        command
            .arg(self.disk().join("data"))
            .args(["--serve", &at(self.ports[0]), "--kafka", &at(self.ports[1])])
            .args(["--cluster-address", &at(self.ports[2]), "--node-id", &self.id()])
            .args(["--cluster-credential", &file(&format!("{address}.pem"))])
            .args(["--cluster-key", &file(&format!("{address}.key"))])
            .args(["--cluster-authority", &file("ca.pem")])
            // So that faults fall into checkpoints and rolls, too.
            .args(["--checkpoint-bytes", "2097152", "--segment-bytes", "1048576"]);
        if let Some(library) = &self.place.clock {
            command
                .env("LD_PRELOAD", library)
                .env("FAKETIME_TIMESTAMP_FILE", self.clock())
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("FAKETIME_CACHE_DURATION", "1")
                .env("FAKETIME_NO_CACHE", "0");
        }
        let log = File::options().create(true).append(true).open(self.log())?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // SAFETY: one call that touches no memory. Members end with the thread that starts them, which is the main one.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        self.child = Some(command.spawn().with_context(|| program.display().to_string())?);
        Ok(())
    }

    /// Starts it, and waits until it answers.
    ///
    /// # Errors
    /// It ended, or does not answer.
    pub fn start(&mut self) -> anyhow::Result<()> {
        self.spawn()?;
        let start = Instant::now();
        loop {
            if self
                .agent
                .get(&self.url("/ready"))
                .call()
                .is_ok_and(|answer| answer.status() == 200)
            {
                return Ok(());
            }
            if let Some(status) = self.ended()? {
                bail!("member {} ended with {status}: {}", self.number, self.log().display());
            }
            ensure!(start.elapsed() < START, "member {} is not ready", self.number);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}:{}{path}", self.place.address, self.ports[0])
    }

    /// How it ended, if it did so by itself.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn ended(&mut self) -> anyhow::Result<Option<std::process::ExitStatus>> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?),
            None => Ok(None),
        }
    }

    /// Runs TessariQL: what it answers.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub fn script(&self, script: &str) -> anyhow::Result<String> {
        let mut answer = self
            .agent
            .post(&self.url("/script"))
            .header("Accept", "text/plain")
            .send(script)?;
        let text = answer.body_mut().read_to_string()?;
        ensure!(answer.status() == 200, "{script}: {text}");
        Ok(text)
    }

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops its process where it is, or lets it go on.
    pub fn pause(&self, pause: bool) {
        if let Some(child) = &self.child {
            let signal = if pause { libc::SIGSTOP } else { libc::SIGCONT };
            // SAFETY: a signal to a child that has not been waited for.
            unsafe { libc::kill(child.id() as i32, signal) };
        }
    }

    /// Fills its disk, or makes room again.
    ///
    /// # Errors
    /// It has no disk of its own.
    pub fn fill(&self, full: bool) -> anyhow::Result<()> {
        ensure!(self.mounted, "no disk of its own");
        let ballast = self.disk().join("ballast");
        if !full {
            return Ok(fs::remove_file(&ballast)?);
        }
        let file = File::create(&ballast)?;
        let mut step: i64 = 64 << 20;
        let mut size = 0;
        while step >= 64 << 10 {
            // SAFETY: a descriptor that is open.
            let done = unsafe { libc::fallocate(std::os::fd::AsRawFd::as_raw_fd(&file), 0, size, step) };
            match done {
                0 => size += step,
                _ => step /= 2,
            }
        }
        Ok(())
    }

    fn clock(&self) -> PathBuf {
        self.place.folder.join("clock")
    }

    /// Sets its clock so many seconds from the true time, where it has one that can be set.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn set_clock(&self, seconds: i64) -> anyhow::Result<()> {
        let new = self.clock().with_extension("new");
        fs::write(&new, format!("{seconds:+}\n"))?;
        Ok(fs::rename(new, self.clock())?)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        if self.mounted {
            let _ = Command::new("umount").arg(self.disk()).status();
        }
    }
}

/// None that the kernel gives to outgoing connections: one of those might take it while the member is down.
fn free_port() -> u16 {
    let mut random = rand::rng();
    loop {
        let port = random.random_range(10_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Makes certificates for these addresses.
///
/// # Errors
/// The program refuses.
pub fn certificates(program: &Path, folder: &Path, addresses: &[String]) -> anyhow::Result<()> {
    let mut command = Command::new(program);
    command.arg("certs").arg(folder);
    for address in addresses {
        command.args(["--node", address]);
    }
    let out = command.output()?;
    ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Ok(())
}
