//! The sections of the laboratory's man pages.

use crate::commands::extra::{Extra, File};

const RESULTS: File =
    File { path: "results/ID/report.html", about: "an experiment's report; its results are beside it" };

pub(in crate::commands) const EXTRAS: &[Extra] = &[
    Extra {
        page: "trunkline-demo",
        files: &[File { path: "trunkline-demo/bench-demo/report.html", about: "the report, with plots" }],
        examples: &[
            ("trunkline demo", "over a WAN of 10 Mbit/s"),
            ("trunkline demo --rate 50mbit --seconds 10 --json", "another rate, shorter, for programs"),
        ],
    },
    Extra {
        page: "trunkline-bench",
        files: &[],
        examples: &[
            ("trunkline bench", "measures throughput, round trips, CPU and memory"),
            ("trunkline bench --runs 3 --json", "medians of three runs, for programs"),
        ],
    },
    Extra {
        page: "trunkline-lab",
        files: &[RESULTS],
        examples: &[("trunkline lab papers --list", "lists the experiments")],
    },
    Extra {
        page: "trunkline-lab-run",
        files: &[RESULTS],
        examples: &[
            ("trunkline lab run office.toml", "runs an experiment and writes its report"),
            (
                "trunkline lab run office.toml --set links.core.rate=5Mbit/s --quick",
                "a quick run of it with another rate",
            ),
            (
                "trunkline lab run office.toml --engine testbed",
                "runs it in real time on this machine's kernel",
            ),
            (
                "trunkline lab run bench-latency --engine testbed --quick",
                "small requests beside bulk flows: an experiment that comes with the program, a few points of it",
            ),
        ],
    },
    Extra {
        page: "trunkline-lab-agree",
        files: &[RESULTS],
        examples: &[(
            "trunkline lab agree office.toml --quick",
            "a quick run by both engines, and a comparison",
        )],
    },
    Extra {
        page: "trunkline-lab-papers",
        files: &[RESULTS],
        examples: &[("trunkline lab papers kung1998 --quick", "a quick run of one paper's experiments")],
    },
    Extra {
        page: "trunkline-lab-explain",
        files: &[File {
            path: "explained/ID/explanation.html",
            about: "what came of an experiment's settings; the same as .md and .json, and the results beside it",
        }],
        examples: &[
            ("trunkline lab explain lee2002-table1", "64 settings of what a table's paper leaves open"),
            (
                "trunkline lab explain lee2002 kung1998 --budget 30min",
                "all experiments of two papers that have unknowns, as many settings as half an hour allows",
            ),
        ],
    },
    Extra {
        page: "trunkline-lab-import",
        files: &[],
        examples: &[
            ("trunkline lab import uplink.trace", "prints an experiment with the link of a mahimahi trace"),
            (
                "trunkline lab import up.csv --back down.csv --delay 30ms",
                "both ways of a link, from tables of rates over time",
            ),
        ],
    },
    Extra {
        page: "trunkline-lab-capture",
        files: &[],
        examples: &[
            ("trunkline lab capture office.toml", "writes the packets of all links to capture.pcapng"),
            (
                "trunkline lab capture office.toml --at flows=10 --link core --out core.pcapng",
                "those of one link, at a point of the sweep",
            ),
        ],
    },
    #[cfg(feature = "web")]
    Extra {
        page: "trunkline-lab-watch",
        files: &[File { path: "/usr/share/trunkline/page.html", about: "the page" }],
        examples: &[
            (
                "trunkline lab watch office.toml",
                "shows the experiment at http://127.0.0.1:8080/, simulated in the browser",
            ),
            (
                "trunkline lab watch office.toml --engine testbed --at flows=10",
                "runs a point of it on this machine's kernel when the page is loaded, and shows what is measured",
            ),
        ],
    },
    Extra {
        page: "trunkline-lab-export",
        files: &[File {
            path: "results/ID/runs.csv",
            about: "a row for each run; also metrics.csv, series.csv and columns.csv, or the same as .arrow",
        }],
        examples: &[
            ("trunkline lab export results", "writes the tables of all results as CSV beside them"),
            (
                "trunkline lab export results/office --format arrow --out tables",
                "those of one experiment as Arrow files, elsewhere",
            ),
        ],
    },
    Extra {
        page: "trunkline-lab-merge",
        files: &[RESULTS],
        examples: &[(
            "trunkline lab merge parts/1 parts/2",
            "puts two parts together, as if one machine had made them",
        )],
    },
    Extra {
        page: "trunkline-lab-advise",
        files: &[],
        examples: &[("trunkline lab advise office.toml", "tries settings and prints which to choose")],
    },
    Extra {
        page: "trunkline-lab-survey",
        files: &[RESULTS],
        examples: &[(
            "trunkline lab survey own-survey --samples 100 --seed 7",
            "compares a default trunk with direct routing on a hundred random paths",
        )],
    },
    Extra {
        page: "trunkline-lab-scorecard",
        files: &[RESULTS],
        examples: &[("trunkline lab scorecard cubic bbr", "evaluates two congestion controls")],
    },
    Extra {
        page: "trunkline-lab-check",
        files: &[],
        examples: &[("trunkline lab check office.toml", "checks an experiment, and prints what it means")],
    },
    Extra {
        page: "trunkline-lab-report",
        files: &[RESULTS],
        examples: &[("trunkline lab report results", "writes all reports again")],
    },
    Extra {
        page: "trunkline-lab-schema",
        files: &[],
        examples: &[("trunkline lab schema > experiment.schema.json", "writes the schema to a file")],
    },
];
