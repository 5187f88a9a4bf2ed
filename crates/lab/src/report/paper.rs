//! The papers, in a line each.

const PAPERS: &[(&str, &str)] = &[
    (
        "lee2002",
        "Lee, Balan, Jacob, Seah, Ananda: Avoiding congestion collapse on the Internet using TCP tunnels (2002)",
    ),
    ("kung1998", "Kung, Wang: TCP trunking (1998)"),
    ("honda2005", "Honda, Ohsaki, Imase, Ishizuka, Murayama: Understanding TCP over TCP (2005)"),
    (
        "damjanovic2007",
        "Damjanovic, Welzl, Munir: Modern TCPs in the Internet: survival of the fittest? (2007)",
    ),
    ("bosau2004", "Bosau: Path Tail Emulation (2004)"),
    (
        "bundler2021",
        "Cangialosi, Narayan, Goyal, Mittal, Alizadeh, Balakrishnan: Site-to-site Internet traffic control (2021)",
    ),
    (
        "sprout2013",
        "Winstein, Sivaraman, Balakrishnan: Stochastic forecasts achieve high throughput and low delay over cellular networks (2013)",
    ),
    ("abc2017", "Goyal, Alizadeh, Balakrishnan: Rethinking congestion control for cellular networks (2017)"),
    ("rfc9743", "RFC 9743: Specifying New Congestion Control Algorithms (2025)"),
];

/// Who wrote what and when, of a paper that is known.
pub(super) fn citation(id: &str) -> Option<String> {
    let (_, citation) = PAPERS.iter().find(|(known, _)| *known == id)?;
    Some((*citation).to_owned())
}
