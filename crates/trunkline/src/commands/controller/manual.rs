//! The sections of the controller's man pages.

use crate::commands::extra::{Extra, File};

const STORE: File =
    File { path: "network.db", about: "revisions of networks' files, with their plans (SQLite)" };
const NETWORK: File = File { path: "network.toml", about: "sites, links and trunks" };

pub(in crate::commands) const EXTRAS: &[Extra] = &[
    Extra {
        page: "trunkline-controller-plan",
        files: &[NETWORK],
        examples: &[
            (
                "trunkline controller plan network.toml",
                "shows which trunks can be carried, and what others lack",
            ),
            ("trunkline controller plan --json network.toml > plan.json", "keeps the plan"),
            (
                "trunkline controller plan --from plan.json network.toml",
                "shows what a change to the file means for those that are carried",
            ),
            (
                "trunkline controller plan --store network.db network.toml",
                "the same from what was applied last",
            ),
        ],
    },
    Extra {
        page: "trunkline-controller-apply",
        files: &[NETWORK, STORE],
        examples: &[
            (
                "trunkline controller apply network.toml --store network.db --from 0",
                "makes a store with its first revision",
            ),
            (
                "trunkline controller apply network.toml --store network.db --from 7 --note backup",
                "applies what was made from revision 7, unless there is a later one",
            ),
            (
                "trunkline controller apply network.toml --store network.db --from 8 --steps 1,10,50",
                "lets a hundredth of the trunks change first, and takes that back if they do not come up",
            ),
        ],
    },
    Extra {
        page: "trunkline-controller-export",
        files: &[STORE],
        examples: &[
            ("trunkline controller export network.db > network.toml", "writes the latest document to a file"),
            ("trunkline controller export network.db --revision 3 --plan", "prints the plan of revision 3"),
        ],
    },
    Extra {
        page: "trunkline-controller-log",
        files: &[STORE],
        examples: &[("trunkline controller log network.db", "lists all revisions, and what was changed")],
    },
    Extra {
        page: "trunkline-controller-serve",
        files: &[STORE],
        examples: &[
            (
                "trunkline controller serve network.db --url https://ctl.example.net:4680",
                "serves the store to gateways that reach this machine by that name",
            ),
            (
                "trunkline controller serve postgres://trunkline@db.example.net/network --url https://ctl.example.net:4680",
                "the same from a database; started on several machines, one serves, and another one when that ends",
            ),
        ],
    },
    Extra {
        page: "trunkline-controller-certificate",
        files: &[STORE],
        examples: &[(
            "trunkline controller certificate network.db > ctl.pem",
            "writes the certificate to a file",
        )],
    },
    Extra {
        page: "trunkline-controller-token",
        files: &[STORE],
        examples: &[
            (
                "trunkline controller token network.db anna --role admin",
                "makes a token for Anna, and prints it",
            ),
            ("trunkline controller token network.db anna --remove", "makes it none"),
        ],
    },
    Extra {
        page: "trunkline-controller-invite",
        files: &[STORE],
        examples: &[("trunkline controller invite network.db berlin", "prints what site berlin enrols with")],
    },
    Extra {
        page: "trunkline-controller-rollout",
        files: &[STORE],
        examples: &[
            ("trunkline controller rollout network.db", "says how far the revision is that is rolled out"),
            ("trunkline controller rollout network.db --back", "lets all sites have what was there before"),
        ],
    },
    Extra {
        page: "trunkline-controller-openapi",
        files: &[],
        examples: &[("trunkline controller openapi > openapi.json", "writes the description to a file")],
    },
    Extra {
        page: "trunkline-controller-schema",
        files: &[],
        examples: &[("trunkline controller schema > network.schema.json", "writes the schema to a file")],
    },
];
