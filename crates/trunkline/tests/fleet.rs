//! A controller that serves, gateways that enrol and follow, and what people ask it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::crypto::aws_lc_rs;
use serde_json::Value;
use trunkline_status::Request;
use trunkline_testbed::namespace::{Host, Process, veth};
use trunkline_testbed::privilege;
use ureq::Agent;
use ureq::tls::{TlsConfig, TlsProvider};

use crate::common::site::{Directory, PROGRAM, ask, status, until};
use crate::postgres::Server;

/// A network of these sites, each of which has trunks to the first.
fn network(sites: &[&str], guarantee: &str) -> String {
    let site = |(place, name): (usize, &&str)| {
        format!(
            "[sites.{name}]\nnetworks = [\"10.{n}.0.0/16\", \"10.200.0.{n}/32\"]\n[sites.{name}.uplinks]\n\
             line = {{ up = \"100 Mbit/s\", down = \"100 Mbit/s\", endpoint = \"192.0.{n}.2:4600\" }}\n",
            n = place + 1
        )
    };
    let trunk = |name: &&str| {
        let first = sites[0];
        format!("[trunks.{first}-{name}]\nsites = [\"{first}\", \"{name}\"]\nguarantee = \"{guarantee}\"\n")
    };
    sites.iter().enumerate().map(site).chain(sites[1..].iter().map(trunk)).collect()
}

fn run(directory: &Directory, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.current_dir(&directory.0).arg("controller").args(arguments).stdin(Stdio::null());
    command.output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a command prints that must succeed.
fn printed(directory: &Directory, arguments: &[&str]) -> String {
    let output = run(directory, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

fn agent() -> Agent {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .disable_verification(true)
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
        .build();
    // A connection of its own for each request: one that the controller has closed after a refusal is not used again.
    let agent = Agent::config_builder()
        .tls_config(tls)
        .proxy(None)
        .max_idle_connections(0)
        .http_status_as_error(false)
        .build();
    agent.into()
}

/// A controller at an address of loopback, with a store `n.db`.
struct Controller {
    directory: Directory,
    process: Child,
    url: String,
    agent: Agent,
    admin: String,
    viewer: String,
}

impl Controller {
    fn new() -> Self {
        let directory = Directory::new();
        let (process, url) = Self::serve(&directory, &["--url", "https://127.0.0.1"]);
        let admin = printed(&directory, &["token", "n.db", "anna", "--role", "admin"]);
        let viewer = printed(&directory, &["token", "n.db", "prometheus"]);
        let controller = Controller { directory, process, url, agent: agent(), admin, viewer };
        // Tokens that another process has made are known a moment later.
        until("the token is known", || controller.get("/v1/status", &controller.viewer).0 == 200);
        controller
    }

    /// Starts one: the process, and where it listens.
    fn serve(directory: &Directory, more: &[&str]) -> (Child, String) {
        let mut command = Command::new(PROGRAM);
        command.current_dir(&directory.0);
        command.args(["controller", "serve", "n.db", "--listen", "127.0.0.1:0"]).args(more);
        let mut process = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let mut errors = BufReader::new(process.stderr.take().expect("piped"));
        errors.read_line(&mut line).expect("a line");
        let address = line.trim().rsplit(' ').next().unwrap_or_default();
        assert!(line.contains("listens at"), "{line}");
        (process, format!("https://{address}"))
    }

    /// Gives it the URL under which it is reached, which has a port that was chosen by the kernel.
    fn restart_at_its_port(&mut self) {
        let port = self.url.rsplit(':').next().unwrap_or_default().to_owned();
        self.kill();
        let url = self.url.clone();
        let listen = format!("127.0.0.1:{port}");
        let mut command = Command::new(PROGRAM);
        command.current_dir(&self.directory.0).stdin(Stdio::null()).stderr(Stdio::null());
        command.args(["controller", "serve", "n.db", "--listen", &listen, "--url", &url]);
        self.process = command.spawn().expect("it starts");
        until("it answers", || self.agent.get(format!("{url}/openapi.json")).call().is_ok());
    }

    fn kill(&mut self) {
        self.process.kill().expect("it is killed");
        self.process.wait().expect("it has ended");
    }

    fn answer(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> (u16, String) {
        let mut response = response.expect("an answer");
        (response.status().as_u16(), response.body_mut().read_to_string().expect("text"))
    }

    fn get(&self, path: &str, token: &str) -> (u16, String) {
        let request = self.agent.get(format!("{}{path}", self.url));
        Self::answer(request.header("Authorization", format!("Bearer {token}")).call())
    }

    /// As a browser asks, with a token as the password: the status, the head's fields, the text.
    fn browse(&self, method: &str, path: &str, token: Option<&str>) -> (u16, ureq::http::HeaderMap, String) {
        let request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.url));
        let password = |token: &str| format!("Basic {}", STANDARD.encode(format!("anybody:{token}")));
        let request = match token {
            Some(token) => request.header("Authorization", password(token)),
            None => request,
        };
        let mut response = self.agent.run(request.body("").expect("a request")).expect("an answer");
        let text = response.body_mut().read_to_string().expect("text");
        (response.status().as_u16(), response.headers().clone(), text)
    }

    fn post(&self, path: &str, token: &str, body: &str) -> (u16, String) {
        let request = self.agent.post(format!("{}{path}", self.url));
        let request = request.header("Authorization", format!("Bearer {token}"));
        Self::answer(request.header("Content-Type", "application/json").send(body))
    }

    fn apply(&self, document: &str, from: u64) -> (u16, Value) {
        self.apply_as(document, &format!("from={from}"))
    }

    fn apply_as(&self, document: &str, how: &str) -> (u16, Value) {
        let (status, text) = self.post(&format!("/v1/apply?{how}"), &self.admin, document);
        (status, serde_json::from_str(&text).expect("json"))
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.get("/v1/status", &self.viewer).1).expect("json")
    }

    /// A gateway's file and key, which nobody starts.
    fn gateway(&self, site: &str) -> PathBuf {
        let _ = self.directory.key(site);
        self.directory.file(site, "listen = [\"127.0.0.1:4600\"]\ntun.address = [\"10.200.0.1/24\"]\n")
    }

    fn invite(&self, site: &str) -> String {
        printed(&self.directory, &["invite", "n.db", site])
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_site_enrols_once_and_its_file_gets_the_peers_that_the_controller_says() {
    let mut controller = Controller::new();
    controller.restart_at_its_port();
    assert_eq!(controller.apply(&network(&["a", "b"], "30 Mbit/s"), 0).0, 200);
    let (a, b) = (controller.gateway("a"), controller.gateway("b"));
    let own = "\n[[peers]] # by hand\nname = \"own\"\npublic_key = \"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\"\n\
               routes = [\"10.9.0.0/16\"]\n";
    fs::write(&a, fs::read_to_string(&a).expect("the file") + own).expect("a peer of its own");
    let directory = &controller.directory;
    let follow = |site: &str| run(directory, &["follow", &format!("{site}.toml"), "--once"]);
    assert!(said(&follow("a")).contains("has not enrolled"), "not yet");
    let invitation = controller.invite("a");
    printed(directory, &["enrol", &invitation, "a.toml"]);
    let again = run(directory, &["enrol", &invitation, "b.toml"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(said(&again).contains("unknown, or was used"), "{}", said(&again));
    let broken = run(directory, &["enrol", &invitation[..100], "b.toml"]);
    assert!(said(&broken).contains("damaged"), "{}", said(&broken));
    printed(directory, &["enrol", &controller.invite("b"), "b.toml"]);
    until("b is a peer of a", || {
        assert!(follow("a").status.success());
        fs::read_to_string(&a).expect("the file").contains("name = \"b\"")
    });
    assert!(follow("b").status.success());
    let text = fs::read_to_string(&a).expect("the file");
    assert!(text.contains(own), "what people wrote stays: {text}");
    assert!(
        text.contains("endpoint = \"192.0.2.2:4600\"") && text.contains("reserved = \"30 Mbit/s\""),
        "{text}"
    );
    assert!(fs::read_to_string(&b).expect("the file").contains("name = \"a\""));
    // Another rate: the peer is another one, and the others stay.
    assert_eq!(controller.apply(&network(&["a", "b"], "40 Mbit/s"), 1).0, 200);
    assert!(follow("a").status.success());
    let text = fs::read_to_string(&a).expect("the file");
    assert!(text.contains("reserved = \"40 Mbit/s\"") && text.matches("name = \"b\"").count() == 1, "{text}");
    assert!(follow("a").status.success(), "nothing new");
    let sites = controller.status()["sites"].clone();
    assert_eq!((&sites[0]["name"], &sites[0]["current"]), (&Value::from("a"), &Value::from(true)), "{sites}");
    assert!(printed(directory, &["certificate", "n.db"]).starts_with("-----BEGIN CERTIFICATE-----"));
    // A site that is removed is a peer of nobody, and nobody itself.
    let deleted = controller.agent.delete(format!("{}/v1/sites/b", controller.url));
    let deleted = deleted.header("Authorization", format!("Bearer {}", controller.admin)).call();
    assert_eq!(Controller::answer(deleted).0, 204);
    assert!(follow("a").status.success());
    assert!(!fs::read_to_string(&a).expect("the file").contains("name = \"b\""));
    let refused = follow("b");
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("no token that is known"), "{}", said(&refused));
}

#[test]
fn a_site_refuses_what_it_does_not_accept_and_says_so() {
    let mut controller = Controller::new();
    controller.restart_at_its_port();
    assert_eq!(controller.apply(&network(&["a", "b"], "30 Mbit/s"), 0).0, 200);
    let (a, _b) = (controller.gateway("a"), controller.gateway("b"));
    let directory = &controller.directory;
    printed(directory, &["enrol", &controller.invite("b"), "b.toml"]);
    printed(directory, &["enrol", &controller.invite("a"), "a.toml", "--accept", "10.2.0.0/17"]);
    let before = fs::read_to_string(&a).expect("the file");
    let follow = || run(directory, &["follow", "a.toml", "--once"]);
    let refused = follow();
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("10.2.0.0/16 behind b is not among the networks"), "{}", said(&refused));
    assert_eq!(fs::read_to_string(&a).expect("the file"), before);
    // A peer of the same name that is not the controller's.
    printed(directory, &["enrol", &controller.invite("a"), "a.toml", "--accept", "10.0.0.0/8"]);
    let own = "\n[[peers]]\nname = \"b\"\npublic_key = \"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\"\nroutes = [\"10.9.0.0/16\"]\n";
    fs::write(&a, before.clone() + own).expect("a peer of its own");
    let refused = follow();
    assert!(said(&refused).contains("has a peer b that is not the controller's"), "{}", said(&refused));
    fs::write(&a, &before).expect("the file");
    assert!(follow().status.success());
    // Somebody has put the site's state back: what it had is taken again, and nothing is there twice.
    let state = a.with_extension("controller");
    let text = fs::read_to_string(&state).expect("the state");
    fs::write(&state, text.replace("\"have\": \"", "\"have\": \"x")).expect("the state");
    assert!(follow().status.success());
    assert_eq!(fs::read_to_string(&a).expect("the file").matches("name = \"b\"").count(), 1);
    // A controller that says an older configuration than was taken.
    let text = fs::read_to_string(&state).expect("the state");
    let mut later: Value = serde_json::from_str(&text).expect("json");
    later["sequence"] = Value::from(1000);
    later["have"] = Value::Null;
    fs::write(&state, later.to_string()).expect("the state");
    let begin = Instant::now();
    let mut command = Command::new(PROGRAM);
    command.current_dir(&directory.0).args(["controller", "follow", "a.toml"]).stderr(Stdio::piped());
    let mut follower = command.spawn().expect("it starts");
    let errors = BufReader::new(follower.stderr.take().expect("piped"));
    let line = errors.lines().map_while(Result::ok).find(|line| line.contains("older"));
    assert!(line.is_some_and(|line| line.contains("than the one that was taken (1000)")));
    assert!(begin.elapsed() < Duration::from_secs(20));
    follower.kill().expect("it is killed");
    follower.wait().expect("it has ended");
}

#[test]
fn who_may_do_what_and_what_is_said_to_others() {
    let controller = Controller::new();
    let document = network(&["a", "b"], "30 Mbit/s");
    let (status, text) = controller.post("/v1/apply?from=0", &controller.viewer, &document);
    assert_eq!(status, 403, "{text}");
    assert_eq!(controller.post("/v1/apply?from=0", "nobody", &document).0, 401);
    assert_eq!(controller.get("/v1/status", "").0, 401);
    assert_eq!(controller.get("/metrics", "x").0, 401);
    assert_eq!(controller.get("/v1/document", &controller.viewer).0, 404, "nothing was applied");
    assert_eq!(controller.apply(&document, 0).0, 200);
    let (status, text) = controller.get("/v1/document", &controller.viewer);
    assert_eq!((status, text.as_str()), (200, document.as_str()));
    // Another administrator has not seen revision 1.
    let (status, problem) = controller.apply(&network(&["a", "b", "c"], "30 Mbit/s"), 0);
    assert_eq!(status, 409);
    assert!(problem["changed"].as_array().is_some_and(|changed| !changed.is_empty()), "{problem}");
    let (status, problem) = controller.apply(&network(&["a", "b"], "200 Mbit/s"), 1);
    assert_eq!((status, problem["plan"]["trunks"][0]["change"].as_str()), (422, Some("lost")), "{problem}");
    let (status, problem) = controller.apply("sites = 1", 1);
    assert!(
        status == 422 && problem["error"].as_str().is_some_and(|error| error.contains(":1:")),
        "{problem}"
    );
    let more = network(&["a", "b", "c"], "20 Mbit/s");
    let (status, text) = controller.post("/v1/plan", &controller.viewer, &more);
    let preview: Value = serde_json::from_str(&text).expect("json");
    assert_eq!((status, preview["revision"].as_u64()), (200, Some(1)), "{text}");
    assert!(preview["changed"].to_string().contains("sites.c"), "{preview}");
    // What is no request of ours.
    for (path, body) in [
        ("/v1/apply", "x"),
        ("/v1/apply?from=1&to=2", "x"),
        ("/v1/enrol", "{}"),
        ("/v1/enrol", "no json"),
        ("/v1/poll", "{\"have\":1}"),
        ("/", ""),
    ] {
        let (status, text) = controller.post(path, &controller.admin, body);
        let problem: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path}: {status} {text}"));
        assert!((400..500).contains(&status) && problem["error"].is_string(), "{path}: {status} {text}");
    }
    // The controller may answer and close before all of it was sent.
    let long = controller.agent.post(format!("{}/v1/apply?from=1", controller.url));
    let long = long.header("Authorization", format!("Bearer {}", controller.admin)).send("#".repeat(5 << 20));
    assert!(long.is_err() || Controller::answer(long).0 == 413);
    assert_eq!(controller.status()["revision"].as_u64(), Some(1));
    let (status, text) = controller.post("/v1/sites/nobody/invitation", &controller.admin, "");
    assert!(status == 404 && text.contains("no site nobody"), "{text}");
    let key = "{\"invitation\":\"x\",\"public_key\":\"short\"}";
    assert_eq!(controller.post("/v1/enrol", "", key).0, 422);
    // What programs read.
    let described: Value = serde_json::from_str(&controller.get("/openapi.json", "").1).expect("json");
    for path in ["/v1/apply", "/v1/plan", "/v1/document", "/v1/status", "/v1/enrol", "/v1/poll", "/metrics"] {
        assert!(described["paths"].get(path).is_some(), "{path}");
    }
    assert_eq!(printed(&controller.directory, &["openapi"]), controller.get("/openapi.json", "").1);
    let metrics = controller.get("/metrics", &controller.viewer).1;
    assert!(metrics.contains("\ntrunkline_controller_trunks_carried 1\n"), "{metrics}");
    // A token that is removed is none.
    printed(&controller.directory, &["token", "n.db", "prometheus", "--remove"]);
    until("the token is none", || controller.get("/metrics", &controller.viewer).0 == 401);
    let names: Vec<String> =
        serde_json::from_str::<Value>(&controller.get("/v1/events", &controller.admin).1)
            .expect("json")
            .as_array()
            .expect("a list")
            .iter()
            .map(|event| event["by"].as_str().unwrap_or_default().to_owned())
            .collect();
    assert!(names.contains(&"anna".to_owned()), "{names:?}");
}

#[test]
fn a_controller_that_is_killed_has_lost_nothing_of_what_it_said() {
    let mut controller = Controller::new();
    controller.restart_at_its_port();
    let mut applied = 0;
    for round in 0..4 {
        for turn in 0..3 {
            let rate = format!("{} Mbit/s", 10 + round * 3 + turn);
            assert_eq!(controller.apply(&network(&["a", "b"], &rate), applied).0, 200);
            applied += 1;
        }
        controller.restart_at_its_port();
        assert_eq!(controller.status()["revision"].as_u64(), Some(applied));
    }
    let (status, document) = controller.get("/v1/document", &controller.viewer);
    assert!(status == 200 && document.contains("guarantee = \"21 Mbit/s\""), "{document}");
    let listed = |query: &str| -> Vec<u64> {
        let (status, text) = controller.get(&format!("/v1/revisions{query}"), &controller.viewer);
        assert_eq!(status, 200, "{text}");
        let entries: Vec<Value> = serde_json::from_str(&text).expect("json");
        entries.iter().filter_map(|entry| entry["revision"].as_u64()).collect()
    };
    assert_eq!(listed(""), (1..=applied).collect::<Vec<u64>>());
    assert_eq!(listed(&format!("?after={}", applied - 2)), [applied - 1, applied]);
    assert!(listed(&format!("?after={}", u64::MAX)).is_empty());
}

/// A gateway at the network of the controller.
struct Office {
    host: Host,
    _gateway: Process,
    follower: Process,
}

#[test]
fn three_gateways_follow_a_controller_and_go_on_without_it() {
    if !privilege::available("three_gateways_follow_a_controller_and_go_on_without_it") {
        return;
    }
    let directory = Directory::new();
    let core = Host::new("core").expect("a host");
    core.forwarding().expect("it forwards");
    let sites = ["a", "b", "c"];
    let hosts: Vec<Host> = sites.iter().map(|site| Host::new(site).expect("a host")).collect();
    for (n, host) in (1..).zip(&hosts) {
        let wan = format!("wan{n}");
        veth(&core, &wan, host, "wan").expect("a line");
        let net = |text: String| text.parse().expect("an address");
        core.address(&wan, net(format!("192.0.{n}.1/24")), None).expect("an address");
        host.address("wan", net(format!("192.0.{n}.2/24")), None).expect("an address");
        let through: IpAddr = format!("192.0.{n}.1").parse().expect("an address");
        host.route("0.0.0.0/0".parse().expect("a prefix"), through).expect("a route");
    }
    let serve = || {
        let mut command = Command::new(PROGRAM);
        command.current_dir(&directory.0).stderr(Stdio::null());
        command.args([
            "controller",
            "serve",
            "n.db",
            "--listen",
            "0.0.0.0:4680",
            "--url",
            "https://192.0.1.1:4680",
        ]);
        core.command(command).expect("it starts")
    };
    let apply = |document: &str, from: u64| {
        fs::write(directory.0.join("n.toml"), document).expect("the document");
        printed(&directory, &["apply", "n.toml", "--store", "n.db", "--from", &from.to_string()]);
    };
    // One certificate for all: the URL's host is in it, and each site reaches it by its router.
    apply(&network(&sites, "20 Mbit/s"), 0);
    let mut controller = serve();
    until("the controller has an identity", || run(&directory, &["invite", "n.db", "a"]).status.success());
    let offices: Vec<Office> = (1..)
        .zip(sites)
        .zip(hosts)
        .map(|((n, site), host)| {
            let _ = directory.key(site);
            let text = format!("listen = [\"0.0.0.0:4600\"]\ntun.address = [\"10.200.0.{n}/24\"]\n");
            directory.file(site, &text);
            let gateway = directory.start(&host, site, Stdio::null());
            let invitation = printed(&directory, &["invite", "n.db", site]);
            let file = format!("{site}.toml");
            let start = |arguments: &[&str]| {
                let mut command = Command::new(PROGRAM);
                command.current_dir(&directory.0).arg("controller").args(arguments).stderr(Stdio::null());
                host.command(command).expect("it starts")
            };
            let mut enrols = start(&["enrol", &invitation, &file]);
            let ended = enrols.wait(Duration::from_secs(20)).expect("its state");
            assert!(ended.is_some_and(|status| status.success()), "{site} does not enrol");
            let follower = start(&["follow", &file]);
            Office { host, _gateway: gateway, follower }
        })
        .collect();
    let lanes = |site: &str, peer: &str| {
        let status = status(&directory.socket(site));
        status.peers.iter().find(|known| known.name == peer).map_or(0, trunkline_status::Peer::lanes_up)
    };
    until("b and c have trunks to a", || {
        lanes("a", "b") > 0 && lanes("a", "c") > 0 && lanes("b", "a") > 0 && lanes("c", "a") > 0
    });
    // A change reaches all while they wait for one.
    let begin = Instant::now();
    apply(&network(&sites, "30 Mbit/s"), 1);
    until("all have the new rate", || {
        sites.iter().all(|site| {
            let file = directory.0.join(format!("{site}.toml"));
            fs::read_to_string(file).expect("a file").contains("reserved = \"30 Mbit/s\"")
        })
    });
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    until("the trunks are up again", || lanes("b", "a") > 0 && lanes("c", "a") > 0);
    // Without the controller everything goes on; when it is back, so does the rest.
    controller.terminate(Duration::from_secs(5)).expect("it has ended");
    std::thread::sleep(Duration::from_secs(2));
    assert!(lanes("b", "a") > 0 && lanes("c", "a") > 0);
    assert!(ask(&directory.socket("b"), &Request::Status).is_ok());
    let _controller = serve();
    apply(&network(&sites, "25 Mbit/s"), 2);
    until("all have what was applied meanwhile", || {
        sites.iter().all(|site| {
            let file = directory.0.join(format!("{site}.toml"));
            fs::read_to_string(file).expect("a file").contains("reserved = \"25 Mbit/s\"")
        })
    });
    // In steps: half of the trunks first.
    let apply_in_steps = |document: &str, from: u64| {
        fs::write(directory.0.join("n.toml"), document).expect("the document");
        let from = from.to_string();
        let how = ["--from", &from, "--steps", "50", "--step-time", "40 s"];
        printed(&directory, &[&["apply", "n.toml", "--store", "n.db"][..], &how].concat());
    };
    let rollout = || printed(&directory, &["rollout", "n.db"]);
    apply_in_steps(&network(&sites, "22 Mbit/s"), 3);
    assert!(rollout().starts_with("revision 4: step "), "{}", rollout());
    until("all have it", || rollout() == "no revision is being rolled out");
    assert!(lanes("b", "a") > 0 && lanes("c", "a") > 0);
    let reserved = |site: &str, rate: &str| {
        let file = directory.0.join(format!("{site}.toml"));
        fs::read_to_string(file).expect("a file").contains(&format!("reserved = \"{rate}\""))
    };
    assert!(sites.iter().all(|site| reserved(site, "22 Mbit/s")));
    // One that cannot work: connections are bound to an interface that leads nowhere. The trunk of the first step goes down, the other never does.
    let nowhere = network(&sites, "21 Mbit/s").replace(":4600\"", ":4600\", interface = \"lo\"");
    apply_in_steps(&nowhere, 4);
    let mut fewest = usize::MAX;
    // The sites give it 20 s, each for itself, before they say that it does not work.
    let begin = Instant::now();
    while !printed(&directory, &["log", "n.db"]).contains("back to revision 4: ") {
        fewest = fewest.min([lanes("b", "a"), lanes("c", "a")].into_iter().max().unwrap_or(0));
        assert!(begin.elapsed() < Duration::from_secs(120), "{}", rollout());
        std::thread::sleep(Duration::from_millis(200));
    }
    println!("taken back after {:?}", begin.elapsed());
    assert!(fewest > 0, "one of both trunks is up all the time");
    until("both trunks are up", || lanes("b", "a") > 0 && lanes("c", "a") > 0);
    until("all have what was there before", || sites.iter().all(|site| reserved(site, "22 Mbit/s")));
    assert_eq!(rollout(), "no revision is being rolled out");
    for mut office in offices {
        assert!(office.follower.try_wait().expect("its state").is_none(), "it follows");
        let _ = office.host.name();
    }
}

#[test]
fn a_browser_is_shown_the_network_and_changes_nothing() {
    let controller = Controller::new();
    let (status, head, text) = controller.browse("GET", "/", None);
    assert_eq!(status, 401, "{text}");
    let field = |head: &ureq::http::HeaderMap, name: &str| {
        head.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    assert!(field(&head, "www-authenticate").starts_with("Basic realm="), "{head:?}");
    assert_eq!(controller.browse("GET", "/", Some("nobody's")).0, 401);
    let viewer = Some(controller.viewer.as_str());
    for (path, media, part) in [
        ("/", "text/html; charset=utf-8", "page.js"),
        ("/page.js", "text/javascript", "v1/status"),
        ("/tables.js", "text/javascript", "export function tableOf"),
        ("/style.css", "text/css", "prefers-color-scheme"),
    ] {
        let (status, head, text) = controller.browse("GET", path, viewer);
        assert_eq!((status, field(&head, "content-type").as_str()), (200, media), "{path}");
        assert!(text.contains(part), "{path}: {text}");
        assert!(
            field(&head, "content-security-policy").starts_with("default-src 'none'; script-src 'self'"),
            "{head:?}"
        );
    }
    assert_eq!(controller.browse("GET", "/v1/plan", viewer).0, 404, "there is none yet");
    assert_eq!(controller.apply(&network(&["a", "b", "c"], "20 Mbit/s"), 0).0, 200);
    let (status, _, text) = controller.browse("GET", "/v1/plan", viewer);
    let plan: Value = serde_json::from_str(&text).expect("json");
    assert_eq!(status, 200);
    assert_eq!(
        (plan["trunks"].as_array().map(Vec::len), plan["links"].as_array().map(Vec::len)),
        (Some(2), Some(3))
    );
    assert_eq!(plan["links"][0]["reserved"]["forth"], 40_000_000);
    assert_eq!(controller.browse("GET", "/v1/plan?revision=2", viewer).0, 404);
    // A browser adds the password to a form of anybody's page.
    let admin = Some(controller.admin.as_str());
    for (method, path) in [
        ("POST", "/v1/plan"),
        ("POST", "/v1/apply?from=1"),
        ("POST", "/v1/sites/a/invitation"),
        ("DELETE", "/v1/sites/a"),
    ] {
        assert_eq!(controller.browse(method, path, admin).0, 401, "{method} {path}");
    }
}

/// A controller that shares a store with others.
struct Replica {
    process: Child,
    address: String,
}

impl Replica {
    fn start(directory: &Directory, store: &str, address: &str, url: &str) -> Self {
        let mut command = Command::new(PROGRAM);
        command.current_dir(&directory.0).args(["controller", "serve", store, "--listen", address]);
        command.args(["--url", url]).stdin(Stdio::null()).stderr(Stdio::null());
        Replica { process: command.spawn().expect("it starts"), address: address.to_owned() }
    }

    fn listens(&self) -> bool {
        TcpStream::connect(&self.address).is_ok()
    }

    fn kill(&mut self) {
        self.process.kill().expect("it is killed");
        self.process.wait().expect("it has ended");
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn of_controllers_with_one_database_one_serves_and_the_next_when_it_is_killed() {
    let Some(server) = Server::start() else { return };
    let (directory, store) = (Directory::new(), server.database());
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    // The address of a third one, which each of them takes in turn, as behind a name with several addresses.
    let url = format!("https://127.0.0.1:{port}");
    let start = |place: u8| Replica::start(&directory, &store, &format!("127.0.0.{place}:{port}"), &url);
    let mut replicas: Vec<Replica> = (1..4).map(start).collect();
    let admin = {
        until("one serves", || replicas.iter().any(Replica::listens));
        printed(&directory, &["token", &store, "anna", "--role", "admin"])
    };
    let agent = agent();
    let ask = |address: &str, path: &str, document: Option<&str>| {
        let url = format!("https://{address}{path}");
        let token = format!("Bearer {admin}");
        let response = match document {
            Some(document) => agent.post(url).header("Authorization", token).send(document),
            None => agent.get(url).header("Authorization", token).call(),
        };
        response.ok().map(|response| Controller::answer(Ok(response)))
    };
    let mut applied = 0;
    let mut identities = Vec::new();
    for round in 0..3 {
        until("one serves", || replicas.iter().any(Replica::listens));
        let serving: Vec<usize> = (0..3).filter(|place| replicas[*place].listens()).collect();
        assert_eq!(serving.len(), 1, "one leads");
        let leader = replicas[serving[0]].address.clone();
        until("the token is known", || {
            ask(&leader, "/v1/status", None).is_some_and(|(status, _)| status == 200)
        });
        // It is killed while it applies one after the other.
        let document = |turn: u64| network(&["a", "b"], &format!("{} Mbit/s", 1 + turn % 50));
        for _ in 0..5 {
            let answer = ask(&leader, &format!("/v1/apply?from={applied}"), Some(&document(applied)));
            assert_eq!(answer.map(|(status, _)| status), Some(200));
            applied += 1;
        }
        identities.push(printed(&directory, &["certificate", &store]));
        let id = serving[0];
        std::thread::scope(|scope| {
            let (ask, document) = (&ask, &document);
            let busy = scope.spawn(move || {
                let mut known = applied;
                while let Some((200, _)) =
                    ask(&leader, &format!("/v1/apply?from={known}"), Some(&document(known)))
                {
                    known += 1;
                }
                known
            });
            std::thread::sleep(Duration::from_millis(30 + 40 * round));
            replicas[id].kill();
            applied = busy.join().expect("it ends");
        });
        let latest = printed(&directory, &["log", &store, "--json"]).lines().count() as u64;
        assert!(
            latest == applied || latest == applied + 1,
            "{latest}, {applied}: what was answered is there"
        );
        applied = latest;
        replicas[id] = start(u8::try_from(id + 1).expect("small"));
    }
    assert!(identities.windows(2).all(|pair| pair[0] == pair[1]), "all of them are the same to sites");
    // The database is killed: what is known is answered on, what is new is not taken; when it is back, all goes on.
    until("one serves", || replicas.iter().any(Replica::listens));
    let place = (0..3).find(|place| replicas[*place].listens()).expect("one leads");
    let status = |place: usize| ask(&replicas[place].address, "/v1/status", None).map(|(status, _)| status);
    until("it knows the store", || status(place) == Some(200));
    server.kill();
    let change = network(&["a", "b"], "77 Mbit/s");
    let answer = ask(&replicas[place].address, &format!("/v1/apply?from={applied}"), Some(&change))
        .expect("an answer");
    assert_eq!(answer.0, 503, "{}", answer.1);
    assert_eq!(status(place), Some(200));
    server.restart();
    until("it is applied", || {
        let serving = replicas.iter().find(|replica| replica.listens());
        serving
            .and_then(|leader| ask(&leader.address, &format!("/v1/apply?from={applied}"), Some(&change)))
            .is_some_and(|(status, text)| status == 200 || text.contains("says the same"))
    });
    // A database that stays away: who leads gives up, and does not serve for ever what may be old.
    until("one serves", || replicas.iter().any(Replica::listens));
    server.kill();
    until("nobody serves", || !replicas.iter().any(Replica::listens));
}

#[test]
fn a_revision_reaches_its_sites_in_steps_and_returns_if_one_refuses_it() {
    let mut controller = Controller::new();
    controller.restart_at_its_port();
    let names = ["hub", "b", "c", "d", "e"];
    assert_eq!(controller.apply(&network(&names, "10 Mbit/s"), 0).0, 200);
    let tokens: Vec<String> = names
        .iter()
        .map(|site| {
            let invitation = controller.invite(site);
            let file = controller.gateway(site);
            printed(&controller.directory, &["enrol", &invitation, &format!("{site}.toml")]);
            let text = fs::read_to_string(file.with_extension("controller")).expect("its state");
            let state: Value = serde_json::from_str(&text).expect("json");
            state["token"].as_str().expect("a token").to_owned()
        })
        .collect();
    // Sites that say all is well, and what they have been given: of each peer the rate.
    let mut have: Vec<Option<String>> = vec![None; names.len()];
    let mut rates: Vec<Value> = vec![Value::Null; names.len()];
    let mut poll = |controller: &Controller, site: usize, error: Option<&str>| {
        let peers = |rates: &Value| -> Vec<Value> {
            let named = rates.as_object().into_iter().flatten();
            named.map(|(name, _)| serde_json::json!({"name": name, "up": true, "capacity": null})).collect()
        };
        let report = serde_json::json!({
            "sequence": 0, "error": error, "running": true, "peers": peers(&rates[site])
        });
        let asked = serde_json::json!({"have": have[site], "wait_s": 0, "report": report}).to_string();
        let (status, text) = controller.post("/v1/poll", &tokens[site], &asked);
        if status == 200 {
            let signed: Value = serde_json::from_str(&text).expect("json");
            let said: trunkline_sites::Configuration =
                serde_json::from_str(signed["configuration"].as_str().expect("text"))
                    .expect("a configuration");
            have[site] = Some(trunkline_sites::fingerprint(&said.peers));
            let rate =
                |peer: &trunkline_sites::ConfiguredPeer| (peer.name.clone(), Value::from(peer.reserved));
            rates[site] = said.peers.iter().map(rate).collect();
        }
        rates.clone()
    };
    let mut all = |controller: &Controller| {
        let mut rates = Vec::new();
        for site in (0..names.len()).chain(0..names.len()) {
            rates = poll(controller, site, None);
        }
        rates
    };
    until("all have the first", || all(&controller)[0].as_object().is_some_and(|peers| peers.len() == 4));
    let how = "from=1&steps=25,50&step_s=600";
    assert_eq!(controller.apply_as(&network(&names, "12 Mbit/s"), how).0, 200);
    let changed = |rates: &[Value], rate: u64| {
        let at = |site: usize| names.iter().filter(move |name| rates[site][**name] == rate).count();
        (at(0), (1..names.len()).map(at).sum::<usize>())
    };
    let mut seen = Vec::new();
    until("all have the second", || {
        let step = || controller.status()["rollout"]["step"].as_u64();
        let before = step();
        let rates = all(&controller);
        let now = changed(&rates, 12_000_000);
        // While they asked, the next one may have begun.
        assert!(now.0 == now.1 || step() != before, "both ends of a trunk change in one step: {now:?}");
        if seen.last() != Some(&now.0) {
            seen.push(now.0);
        }
        controller.status()["rollout"].is_null() && now.0 == 4
    });
    seen.retain(|count| *count > 0);
    assert_eq!(seen, [1, 2, 4], "a quarter, a half, all");
    // While one runs nothing else is applied, but it can be ended.
    assert_eq!(controller.apply_as(&network(&names, "13 Mbit/s"), "from=2&steps=25").0, 200);
    let (status, problem) = controller.apply(&network(&names, "14 Mbit/s"), 3);
    assert!(
        status == 409 && problem["error"].as_str().is_some_and(|error| error.contains("--finish")),
        "{problem}"
    );
    assert_eq!(controller.post("/v1/rollout?end=other", &controller.admin, "").0, 400);
    assert_eq!(controller.post("/v1/rollout?end=back", &controller.viewer, "").0, 403);
    let (status, text) = controller.post("/v1/rollout?end=back", &controller.admin, "");
    assert_eq!((status, text.as_str()), (200, "4"));
    assert_eq!(controller.post("/v1/rollout?end=back", &controller.admin, "").0, 409);
    until("the rate before is back", || changed(&all(&controller), 12_000_000).0 == 4);
    // A restart in the middle: it goes on where it was. Then a site refuses, and all is as before.
    assert_eq!(controller.apply_as(&network(&names, "9 Mbit/s"), "from=4&steps=25").0, 200);
    controller.restart_at_its_port();
    assert_eq!(controller.status()["rollout"]["step"], 1);
    let waits = controller.status()["rollout"]["waits_for"].to_string();
    assert!(waits.contains("hub does not ask"), "{waits}");
    assert!(
        controller.get("/metrics", &controller.viewer).1.contains("\ntrunkline_controller_rollout_step 1\n")
    );
    let rates = all(&controller);
    assert_eq!(changed(&rates, 9_000_000).0, 1);
    for (status, text) in [("steps=0", "allowed"), ("steps=5,4", "allowed"), ("steps=5&step_s=0", "allowed")]
        .map(|(how, text)| {
            (controller.apply_as(&network(&names, "8 Mbit/s"), &format!("from=5&{how}")), text)
        })
    {
        assert!(
            status.0 == 422 && status.1["error"].as_str().is_some_and(|error| error.contains(text)),
            "{status:?}"
        );
    }
    // The next step may have begun meanwhile: then the hub refuses that.
    until("it is taken back", || {
        poll(&controller, 0, Some("no room"));
        controller.status()["revision"] == 6
    });
    let events = controller.get("/v1/events", &controller.admin).1;
    assert!(events.contains("revision 5: took back (hub: no room)"), "{events}");
    let document = controller.get("/v1/document", &controller.viewer).1;
    assert!(document.contains("12 Mbit/s"), "{document}");
}
