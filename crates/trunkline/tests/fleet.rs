//! A controller that serves, gateways that enrol and follow, and what people ask it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::IpAddr;
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
        let controller = Controller { directory, process, url, agent: agent.into(), admin, viewer };
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
        let (status, text) = self.post(&format!("/v1/apply?from={from}"), &self.admin, document);
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
