// The network of the page: two sites, a WAN between them, and four kinds of traffic. Settings in, the text of an experiment out.

/** What can be set: the default, the least, the most, a step, a unit, and the text beside the slider. */
export const SETTINGS = {
  rate: { value: 10, min: 1, max: 50, step: 1, unit: "Mbit/s", label: "rate of the WAN", live: "rate" },
  delay: { value: 20, min: 1, max: 150, step: 1, unit: "ms", label: "delay of the WAN, one way", live: "delay" },
  buffer: { value: 100, min: 5, max: 500, step: 5, unit: "packets", label: "buffer of the WAN" },
  loss: { value: 0, min: 0, max: 5, step: 0.1, unit: "%", label: "loss on the WAN", live: "loss" },
  flows: { value: 4, min: 1, max: 20, step: 1, unit: "flows", label: "backups over TCP" },
  web: { value: 8, min: 0, max: 40, step: 1, unit: "people", label: "people on the web" },
  calls: { value: 4, min: 0, max: 20, step: 1, unit: "calls", label: "calls, 80 kbit/s each" },
  flood: { value: 0, min: 0, max: 50, step: 1, unit: "Mbit/s", label: "flood of UDP" },
};

export const CHOICES = {
  discipline: { value: "tail-drop", options: ["tail-drop", "red", "codel", "fq-codel", "pie"], label: "queue of the WAN" },
  tcp: { value: "cubic", options: ["cubic", "reno", "bbr", "vegas", "bic", "compound"], label: "TCP of the hosts" },
  classes: { value: "interactive", options: ["interactive", "split", "single"], label: "classes of the trunk" },
};

export const PRESETS = {
  backups: {
    title: "Calls and web pages beside backups",
    set: { buffer: 300 },
    look: "Without a trunk the queue in front of the WAN is always full, and calls and pages wait in it. With one the queue stands at the edge, in the class of the backups, and nobody else waits in it.",
  },
  flood: {
    title: "A flood of UDP",
    set: { flood: 12, calls: 0, web: 4 },
    look: "The flood is more than the WAN carries and minds no loss: without a trunk TCP keeps next to nothing. With one the flood has its share, and is dropped at the edge.",
  },
  flows: {
    title: "Many flows and a small buffer",
    set: { flows: 20, buffer: 20, web: 0, calls: 0 },
    look: "Twenty flows push each other out of a short queue in the core. The lanes of a trunk are a few flows; packets wait, and are dropped, where the site can choose which.",
  },
  loss: {
    title: "A WAN that loses packets",
    set: { loss: 1, rate: 20 },
    look: "One packet in a hundred is lost without any congestion. TCP takes it for one and slows down; the trunk tells noise from a queue.",
  },
  long: {
    title: "A long path",
    set: { delay: 150, rate: 30, buffer: 300 },
    look: "A third of a second there and back. Look how long flows need to fill the WAN, and what a loss costs.",
  },
};

/** Experiments of the laboratory: two points of each, side by side. `build.mjs` puts their texts into the page. */
export const PAPERS = {
  demo: {
    title: "The demo: requests beside a flood",
    file: "bench/demo.toml",
    points: [{ trunk: "no trunk" }, { trunk: "as shipped" }],
    titles: ["Without a trunk", "With a trunk as shipped"],
    look: "Small requests and transfers share a line with a flood of UDP. Without a trunk hardly a request gets through; with one as it is shipped they do not notice.",
  },
  kung: {
    title: "Kung and Wang 1998, figure 2: users of the web beside greedy sites",
    file: "kung1998/fig2.toml",
    points: [{ case: "b" }, { case: "c" }],
    titles: ["(b) without trunks", "(c) a trunk for each site"],
    look: "Three sites share one port; the first sends web pages, the two others all they can. With a trunk for each site the web's part no longer depends on how many flows the others have.",
  },
  lee: {
    title: "Lee and others 2002, table 2: users of the web before a flood",
    file: "lee2002/table2.toml",
    points: [{ trunk: "without" }, { trunk: "with" }],
    titles: ["Without trunks", "With trunks"],
    look: "A flood meets users of the web at a bottleneck. Without trunks it takes what it wants; with one for each kind of traffic it is dropped at the edge, and the pages come through.",
  },
  honda: {
    title: "Honda and others 2005, figure 2: TCP over TCP on a long path",
    file: "honda2005/fig2.toml",
    points: [{ access: "5.06 us", backbone: "100 ms", tunnel: "without" }, { access: "5.06 us", backbone: "100 ms", tunnel: "with" }],
    titles: ["Without a tunnel", "TCP in a tunnel over TCP"],
    look: "Users' TCP within the TCP of a tunnel. Look where packets wait: in the tunnel all of them stand in one line.",
  },
  damjanovic: {
    title: "Damjanovic and others 2007: BIC beside Reno",
    file: "damjanovic2007/mix.toml",
    points: [{ pair: "reno-bic", trunk: "without" }, { pair: "reno-bic", trunk: "with" }],
    titles: ["Without a trunk", "With a trunk"],
    look: "Two congestion controls of their time on one line. Look who has how much, and what a trunk changes about it.",
  },
  bosau: {
    title: "Bosau 2004, figure 3: a mobile host behind path tail emulation",
    file: "bosau2004/fig3.toml",
    points: [{ model: "fitted", proxy: "none" }, { model: "fitted", proxy: "path-tail" }],
    titles: ["Without a proxy", "With path tail emulation"],
    look: "A copy to a mobile host whose link stops now and then. The proxy shows the sender the mobile network as it is.",
  },
};

export function defaults() {
  const values = {};
  for (const [name, { value }] of [...Object.entries(SETTINGS), ...Object.entries(CHOICES)]) values[name] = value;
  return values;
}

/** The text of the experiment. */
export function experiment(values, { trunk }) {
  const lines = [
    'id = "page"',
    'title = "Two sites and a WAN"',
    'duration = "10000 s"',
    "[nodes]",
    'here = "gateway"',
    'wan = "router"',
    'there = "gateway"',
    'far = "host"',
  ];
  const hosts = ["backup", ...(values.web > 0 ? ["web"] : []), ...(values.calls > 0 ? ["calls"] : []), ...(values.flood > 0 ? ["flood"] : [])];
  for (const host of hosts) lines.push(`${host} = "host"`);
  const lan = (name, one, other) => lines.push(`[links.${name}]`, `ends = ["${one}", "${other}"]`, 'rate = "1 Gbit/s"', 'delay = "0.5 ms"');
  for (const host of hosts) lan(`lan-${host}`, host, "here");
  lan("uplink", "here", "wan");
  lines.push(
    "[links.wan]",
    'ends = ["wan", "there"]',
    `rate = "${values.rate} Mbit/s"`,
    `delay = "${values.delay} ms"`,
    `loss = "${values.loss} %"`,
    `queue = { discipline = "${values.discipline}", packets = ${values.buffer} }`,
  );
  lan("lan-far", "there", "far");
  lines.push("[tcp.host]", 'preset = "linux-6"', `growth = "${values.tcp}"`);
  const traffic = (name, ...rest) => lines.push(`[traffic.${name}]`, ...rest);
  traffic("backup", 'kind = "bulk"', 'from = "backup"', 'to = "far"', `flows = ${values.flows}`, 'tcp = "host"', 'stagger = "100 ms"');
  if (values.web > 0) {
    const shape = ['response = { shape = "pareto", min = "8 KB", exponent = 1.5 }', 'think = { shape = "exponential", mean = "2 s" }'];
    traffic("web", 'kind = "web"', 'from = "web"', 'to = "far"', `flows = ${values.web}`, ...shape, 'tcp = "host"');
  }
  if (values.calls > 0) {
    traffic("calls", 'kind = "udp"', 'from = "calls"', 'to = "far"', `rate = "${80 * values.calls} kbit/s"`, 'packet = "200 B"', "dscp = 46");
  }
  if (values.flood > 0) traffic("flood", 'kind = "udp"', 'from = "flood"', 'to = "far"', `rate = "${values.flood} Mbit/s"`, 'packet = "1200 B"');
  if (trunk) lines.push("[trunks.site]", 'gateways = ["here", "there"]', `classes = "${values.classes}"`);
  return `${lines.join("\n")}\n`;
}
