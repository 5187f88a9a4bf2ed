//! A server of `PostgreSQL` for tests, where one is installed: on loopback, in a directory of its own, gone with the last test that uses it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

const PATIENCE: Duration = Duration::from_secs(60);
/// The server refuses to be root. Nobody owns nothing else.
const NOBODY: u32 = 65534;
/// Servers of this process so far.
static NUMBER: AtomicU32 = AtomicU32::new(0);
static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

/// A server.
pub(crate) struct Server {
    directory: PathBuf,
    programs: PathBuf,
    process: Mutex<Child>,
    port: u16,
    databases: AtomicU32,
}

/// Where the programs of the newest version are that is installed.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|entry| entry.path().join("bin"));
    versions.filter(|programs| programs.join("initdb").is_file()).max()
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.env_clear().env("LC_ALL", "C").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Server {
    /// The server that tests of this process share. None where `PostgreSQL` is not installed, which is said.
    #[allow(dead_code, reason = "some test programs kill theirs, and share none")]
    pub(crate) fn shared() -> Option<Arc<Self>> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return Some(server);
        }
        let server = Arc::new(Server::start()?);
        *shared = Arc::downgrade(&server);
        Some(server)
    }

    /// A server of one test, which may kill it.
    pub(crate) fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            eprintln!("SKIPPED what needs PostgreSQL: /usr/lib/postgresql has no server");
            return None;
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("trunkline-postgres-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).expect("a directory");
        if rustix::process::geteuid().is_root() {
            chown(&directory, Some(NOBODY), Some(NOBODY)).expect("its owner");
        }
        let made = command(&programs.join("initdb"))
            .args(["--auth=trust", "--username=trunkline", "--no-sync", "--encoding=UTF8", "--pgdata"])
            .arg(directory.join("data"))
            .status();
        assert!(made.expect("initdb runs").success(), "a cluster");
        // Another process may take it meanwhile, which a test would say.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
        let process = Mutex::new(Self::run(&programs, &directory, port));
        let server = Server { directory, programs, process, port, databases: AtomicU32::new(0) };
        server.client();
        Some(server)
    }

    fn run(programs: &Path, directory: &Path, port: u16) -> Child {
        let mut server = command(&programs.join("postgres"));
        server.arg("-D").arg(directory.join("data")).arg("-k").arg(directory);
        server.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]);
        if directory.join("server.key").is_file() {
            for (name, file) in [("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key")] {
                server.arg("-c").arg(format!("{name}={}", directory.join(file).display()));
            }
            server.args(["-c", "ssl=on"]);
        }
        server.args(["-c", "max_connections=200"]).spawn().expect("it starts")
    }

    /// A connection to it, once it answers.
    pub(crate) fn client(&self) -> Client {
        let begin = Instant::now();
        loop {
            match Client::connect(&self.url("postgres"), NoTls) {
                Ok(client) => return client,
                Err(error) => assert!(begin.elapsed() < PATIENCE, "the server does not answer: {error}"),
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://trunkline@127.0.0.1:{}/{database}", self.port)
    }

    /// The URL of a new database.
    pub(crate) fn database(&self) -> String {
        let name = format!("network{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.client().batch_execute(&format!("CREATE DATABASE {name}")).expect("a database");
        self.url(&name)
    }

    /// Gives it a certificate, when it is started again.
    #[allow(dead_code, reason = "not all test programs do")]
    pub(crate) fn certify(&self, certificate: &str, key: &str) {
        for (file, text) in [("server.pem", certificate), ("server.key", key)] {
            let path = self.directory.join(file);
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
            if rustix::process::geteuid().is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).expect("its owner");
            }
        }
    }

    /// Kills it, as a loss of power would.
    pub(crate) fn kill(&self) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.kill().expect("it is killed");
        process.wait().expect("it has ended");
    }

    /// Starts it again, once what was killed has gone.
    pub(crate) fn restart(&self) {
        let _ = fs::remove_file(self.directory.join("data/postmaster.pid"));
        let begin = Instant::now();
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            *process = Self::run(&self.programs, &self.directory, self.port);
            thread::sleep(Duration::from_millis(500));
            if process.try_wait().expect("its state").is_none() {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not start again");
        }
        drop(process);
        self.client();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap_or_else(PoisonError::into_inner);
        // It takes its own processes along.
        if let Ok(id) = i32::try_from(process.id())
            && let Some(id) = rustix::process::Pid::from_raw(id)
        {
            let _ = rustix::process::kill_process(id, rustix::process::Signal::QUIT);
        }
        let _ = process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
