//! Installing the stock clients, once per set of pins.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const REQUIREMENTS: &str = include_str!("../../clients/requirements.txt");
const JAVA_POM: &str = include_str!("../../clients/java/pom.xml");
const KCAT: &str = "kcat=1.7.1-2";

/// The Python programs of the tests.
pub fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// A Python interpreter that has the clients of requirements.txt.
pub fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| environment("clients", REQUIREMENTS, &program("requirements.txt")))
}

/// The Python interpreter of an environment in target/ with what is required, installed once per set of pins.
pub(crate) fn environment(name: &str, requirements: &str, file: &Path) -> PathBuf {
    let mut pins = DefaultHasher::new();
    requirements.hash(&mut pins);
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{:016x}", pins.finish()));
    let (done, python) = (root.join("complete"), root.join("bin/python"));
    std::fs::create_dir_all(env!("CARGO_TARGET_TMPDIR")).expect("target/tmp");
    // Another test process may be at it.
    let lock = File::create(root.with_extension("lock")).expect("a lock file");
    lock.lock().expect("the lock");
    if !done.exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&root));
        run(Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "-r",
            ])
            .arg(file));
        File::create(&done).expect("a mark");
    }
    python
}

/// The class path of the Java client; Java 17 and, the first time, Maven must be there.
pub fn java_clients() -> &'static Path {
    static CLASSES: OnceLock<PathBuf> = OnceLock::new();
    CLASSES.get_or_init(|| {
        let mut pins = DefaultHasher::new();
        JAVA_POM.hash(&mut pins);
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("java-clients-{:016x}", pins.finish()));
        let done = root.join("complete");
        std::fs::create_dir_all(env!("CARGO_TARGET_TMPDIR")).expect("target/tmp");
        let lock = File::create(root.with_extension("lock")).expect("a lock file");
        lock.lock().expect("the lock");
        if !done.exists() {
            run(Command::new("mvn")
                .args(["-q", "-B", "-f"])
                .arg(program("java/pom.xml"))
                .arg("dependency:copy-dependencies")
                .arg(format!("-DoutputDirectory={}", root.display())));
            File::create(&done).expect("a mark");
        }
        root.join("*")
    })
}

/// Whether kcat can be run; installs Debian's where it may. Under `CI` it must be there.
pub fn kcat() -> bool {
    static KCAT_RUNS: OnceLock<bool> = OnceLock::new();
    *KCAT_RUNS.get_or_init(|| {
        let runs = || quiet(Command::new("kcat").arg("-V"));
        // SAFETY: asks a number of the kernel.
        let root = unsafe { libc::geteuid() } == 0;
        if !runs() && root {
            let apt = |arguments: &[&str]| {
                quiet(
                    Command::new("apt-get")
                        .args(arguments)
                        .env("DEBIAN_FRONTEND", "noninteractive"),
                )
            };
            let install = ["install", "-y", "--no-install-recommends", KCAT];
            // The lists may be old, or not there yet.
            let _ = apt(&install) || (apt(&["update"]) && apt(&install));
        }
        let runs = runs();
        assert!(
            runs || std::env::var_os("CI").is_none(),
            "kcat is missing and could not be installed"
        );
        if !runs {
            eprintln!("kcat is missing: `apt-get install kcat` lets the tests use it");
        }
        runs
    })
}

fn run(command: &mut Command) {
    let out = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        out.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// Runs a command to its end without its output; whether it succeeded.
pub(crate) fn quiet(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
