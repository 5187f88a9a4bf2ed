//! Sections of the man pages that the definition of the command line does not have: files, examples, other pages.

use std::fmt::Write as _;

#[cfg(feature = "controller")]
use super::controller::manual::EXTRAS as CONTROLLER;
use super::extra::{Extra, File};
#[cfg(feature = "laboratory")]
use super::laboratory::manual::EXTRAS as LABORATORY;
#[cfg(not(feature = "laboratory"))]
const LABORATORY: &[Extra] = &[];
#[cfg(not(feature = "controller"))]
const CONTROLLER: &[Extra] = &[];

const SITE: File = File { path: "/etc/trunkline/NAME.toml", about: "a site's file: trunkline.toml(5)" };
const KEY: File = File { path: "/etc/trunkline/NAME.key", about: "its private key" };
const SOCKET: File =
    File { path: "/run/trunkline/NAME.sock", about: "the control socket of a running gateway" };

const MEMBERSHIP: File = File {
    path: "/etc/trunkline/NAME.controller",
    about: "what the site knows of its controller, secrets among it",
};

const EXTRAS: &[Extra] = &[
    Extra {
        page: "trunkline",
        files: &[SITE, SOCKET],
        examples: &[
            ("trunkline init", "sets up a site here, and prints an invitation for another"),
            ("trunkline join INVITATION", "sets up the other"),
            ("trunkline check a.toml", "checks a site's file, and prints what it means"),
            ("trunkline up a.toml", "runs the site's gateway"),
            ("trunkline status a.toml", "shows its state"),
        ],
    },
    Extra {
        page: "trunkline-up",
        files: &[SITE, SOCKET],
        examples: &[
            ("trunkline up /etc/trunkline/a.toml", "runs the gateway of site a"),
            ("trunkline up --log-format json a.toml", "the same, with a log of JSON objects"),
        ],
    },
    Extra {
        page: "trunkline-check",
        files: &[SITE],
        examples: &[
            ("trunkline check a.toml", "prints what the file means, or its mistakes and where they are"),
            ("trunkline check --json a.toml", "the same for programs"),
        ],
    },
    Extra {
        page: "trunkline-doctor",
        files: &[SITE],
        examples: &[
            ("trunkline doctor", "examines this machine: kernel settings, device, limits"),
            ("trunkline doctor a.toml", "also what site a needs of it, and whether its peers answer"),
            ("trunkline doctor --json a.toml", "the same for programs"),
            ("trunkline doctor --bundle report.txt a.toml", "also writes what helpers need into a file"),
        ],
    },
    Extra {
        page: "trunkline-init",
        files: &[SITE, KEY],
        examples: &[
            ("trunkline init --dry-run", "shows what would be done on this machine"),
            (
                "trunkline init --endpoint a.example.net",
                "sets up a site that others dial by this name, and invites one",
            ),
            (
                "trunkline init --name paris --lan 10.1.0.0/16 --yes > invitation",
                "asks nothing, and keeps the invitation",
            ),
        ],
    },
    Extra {
        page: "trunkline-invite",
        files: &[SITE, SOCKET],
        examples: &[
            ("trunkline invite", "invites another site to the one that is here"),
            ("trunkline invite paris --expires 24h", "invites one to site paris, for a day"),
        ],
    },
    Extra {
        page: "trunkline-join",
        files: &[SITE, KEY],
        examples: &[
            ("trunkline join tl1_...", "joins the site that has printed this invitation"),
            ("trunkline join - --yes < invitation", "reads the invitation from a file, and asks nothing"),
        ],
    },
    Extra {
        page: "trunkline-leave",
        files: &[SITE, KEY],
        examples: &[
            ("trunkline leave --dry-run", "shows what would be removed from this machine"),
            ("trunkline leave --peer berlin", "removes a peer from the site that is here"),
        ],
    },
    Extra {
        page: "trunkline-status",
        files: &[SOCKET],
        examples: &[
            ("trunkline status", "shows the one gateway that runs here"),
            ("trunkline status --interval 10 a", "the gateway of site a, with rates over 10 seconds"),
            ("trunkline status --json a", "counters for programs"),
        ],
    },
    Extra {
        page: "trunkline-top",
        files: &[SOCKET],
        examples: &[
            ("trunkline top a", "watches the gateway of site a, or the proxies of a.toml"),
            ("trunkline top --once --interval 5 a", "prints one frame with rates over 5 seconds"),
        ],
    },
    #[cfg(feature = "web")]
    Extra {
        page: "trunkline-web",
        files: &[SOCKET],
        examples: &[
            ("trunkline web a", "shows the gateway of site a at http://127.0.0.1:8080/"),
            (
                "trunkline web a --listen 192.0.2.1:8443 --certificate chain.pem --key key.pem --token-file token",
                "shows it to other machines that know the token",
            ),
        ],
    },
    Extra {
        page: "trunkline-reload",
        files: &[SITE, SOCKET],
        examples: &[("trunkline reload a", "makes the gateway of site a read its file again")],
    },
    Extra {
        page: "trunkline-hooks",
        files: &[
            File {
                path: "/etc/trunkline/hooks",
                about: "programs, which get: up SITE, down SITE, peer-up SITE PEER, peer-down SITE PEER, path-change SITE PEER PATH STATE",
            },
            SOCKET,
        ],
        examples: &[
            ("trunkline hooks a.toml", "runs the programs in /etc/trunkline/hooks for the events of site a"),
            (
                "trunkline hooks a --directory ./hooks --limit 2s",
                "those of another directory, which get two seconds each",
            ),
        ],
    },
    Extra {
        page: "trunkline-proxy",
        files: &[File { path: "/etc/trunkline/proxy.toml", about: "the proxies' file" }],
        examples: &[
            (
                "trunkline proxy --check proxy.toml",
                "prints what the file means, or its mistakes and where they are",
            ),
            ("trunkline proxy proxy.toml", "runs its proxies"),
        ],
    },
    Extra {
        page: "trunkline-down",
        files: &[SOCKET],
        examples: &[("trunkline down a", "ends the gateway of site a")],
    },
    Extra {
        page: "trunkline-unblock",
        files: &[SITE],
        examples: &[(
            "trunkline unblock a",
            "lets packets to the peers of site a pass again after its gateway has ended",
        )],
    },
    Extra {
        page: "trunkline-controller",
        files: &[SITE, MEMBERSHIP],
        examples: &[(
            "trunkline controller follow /etc/trunkline/berlin.toml",
            "keeps the peers in this file as the controller says",
        )],
    },
    Extra {
        page: "trunkline-controller-enrol",
        files: &[SITE, MEMBERSHIP],
        examples: &[(
            "trunkline controller enrol tlc1_eyJ1cmwi /etc/trunkline/berlin.toml",
            "makes the gateway of this file the site that was invited",
        )],
    },
    Extra {
        page: "trunkline-controller-follow",
        files: &[SITE, MEMBERSHIP],
        examples: &[(
            "trunkline controller follow /etc/trunkline/berlin.toml",
            "keeps the peers in this file as the controller says",
        )],
    },
    Extra {
        page: "trunkline-schema",
        files: &[],
        examples: &[("trunkline schema > site.schema.json", "writes the schema to a file")],
    },
    Extra {
        page: "trunkline-genkey",
        files: &[],
        examples: &[("trunkline genkey > a.key", "generates a key; set umask 077 before")],
    },
    Extra {
        page: "trunkline-pubkey",
        files: &[],
        examples: &[("trunkline pubkey < a.key", "prints the public key")],
    },
    Extra {
        page: "trunkline-completions",
        files: &[],
        examples: &[("trunkline completions bash > /etc/bash_completion.d/trunkline", "for bash")],
    },
    Extra {
        page: "trunkline-man",
        files: &[],
        examples: &[("trunkline man --out /usr/share/man/man1", "writes all pages")],
    },
];

fn extras() -> impl Iterator<Item = &'static Extra> {
    EXTRAS.iter().chain(CONTROLLER).chain(LABORATORY)
}

/// The additional sections of a page, as roff.
pub(super) fn sections(page: &str) -> String {
    let mut text = String::new();
    let Some(extra) = extras().find(|extra| extra.page == page) else { return text };
    let escaped = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
    // Writing to a string cannot fail.
    if !extra.files.is_empty() {
        text.push_str(".SH FILES\n");
    }
    for file in extra.files {
        let _ = writeln!(text, ".TP\n\\fI{}\\fR\n{}", escaped(file.path), escaped(file.about));
    }
    text.push_str(".SH EXAMPLES\n");
    for (line, about) in extra.examples {
        let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", escaped(line), escaped(about));
    }
    let others = match page {
        "trunkline" => ".BR trunkline.toml (5)\n",
        _ => ".BR trunkline (1),\n.BR trunkline.toml (5)\n",
    };
    text + ".SH SEE ALSO\n" + others
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_example_is_a_valid_command_line() {
        for (line, _) in extras().flat_map(|extra| extra.examples) {
            let words = line.split_whitespace().take_while(|word| !matches!(*word, "<" | ">" | "|"));
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn examples_are_of_the_page_they_are_on() {
        for extra in extras().filter(|extra| extra.page != "trunkline") {
            let command = extra.page.replace('-', " ");
            for (line, _) in extra.examples {
                assert!(line.starts_with(&command), "{line} on {}", extra.page);
            }
        }
    }
}
