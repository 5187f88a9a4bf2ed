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
