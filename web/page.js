// The page: two runs of one network side by side, drawn as they go.

import uPlot from "uplot";

import { Measured } from "./measured.js";
import { Network } from "./network.js";
import { CHOICES, PAPERS, PRESETS, SETTINGS, defaults, experiment } from "./scenario.js";
import { Simulation, compile } from "./simulation.js";

/** A frame computes for so long at most, ms; a slower machine runs slower, and does not stutter. */
const BUDGET = 12;
/** Of the charts: the time between two points and the time they show, s. */
const EVERY = 0.1;
const SHOWN = 30;

const at = (id) => document.getElementById(id);
const settings = defaults();
let module = null;
let panels = [];
/** An experiment of one's own. */
let own = null;
/** Which of the laboratory's is shown. */
let paper = null;
/** Their texts by file. */
let texts = {};
let plots = [];
let isRunning = true;
let time = 0;
let drawn = 0;
let told = -Infinity;

/** One of the two runs. */
class Panel {
  constructor(title, simulation, canvas) {
    Object.assign(this, { title, simulation, canvas, network: new Network(simulation.described) });
    this.last = { time: 0, values: {} };
    this.sampled = [];
  }

  sample() {
    const { simulation } = this;
    const values = simulation.read();
    this.last = { time: simulation.now, values: Object.fromEntries(simulation.described.overview.map((name, place) => [name, values[place]])) };
    this.sampled.push(this.last);
    if (this.sampled.length > SHOWN / EVERY) this.sampled.shift();
  }

  runUntil(until) {
    const end = performance.now() + BUDGET / panels.length;
    while (this.simulation.now < until) {
      const next = Math.min(until, this.last.time + EVERY, this.simulation.now + 0.02);
      this.simulation.runUntil(next);
      if (next >= this.last.time + EVERY - 1e-9) this.sample();
      if (performance.now() > end) return;
    }
  }
}

function show(title, simulation) {
  const figure = document.createElement("figure");
  const heading = document.createElement("h2");
  heading.textContent = title;
  const canvas = document.createElement("canvas");
  canvas.className = "network";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${title}: packets and queues; the text below says the same in numbers`);
  figure.append(heading, canvas);
  at("networks").append(figure);
  return new Panel(title, simulation, canvas);
}

async function open(title, text, point = 0) {
  const simulation = await Simulation.open(module, text, { point });
  simulation.watch(simulation.described.overview);
  return show(title, simulation);
}

/** A run on the kernel of the machine that serves the page. */
async function follow({ name, text, point, frames }) {
  const { described } = await Simulation.open(module, text, { point });
  const measured = new Measured(described);
  const panel = show(`${name}, on the kernel of this machine`, measured);
  const events = new EventSource(frames);
  events.onmessage = ({ data }) => {
    const frame = JSON.parse(data);
    if (frame.values) {
      // It has begun anew.
      if (frame.at < measured.now) panel.sampled.length = 0;
      measured.take(frame);
      panel.sample();
    }
    at("look").textContent = frame.notice ?? described.title;
  };
  events.onerror = () => { at("look").textContent = "trunkline lab watch does not answer, retrying"; };
  return panel;
}

/** Two points of an experiment of the laboratory. */
async function beside({ file, points, titles }) {
  const { points: all } = (await Simulation.open(module, texts[file])).described;
  const panels = [];
  for (const [number, wanted] of points.entries()) {
    const place = all.findIndex((point) => Object.entries(wanted).every(([axis, value]) => point[axis] === value));
    panels.push(await open(titles[number], texts[file], Math.max(place, 0)));
  }
  return panels;
}

/** Begins both runs anew. */
async function begin() {
  at("wrong").hidden = true;
  at("networks").replaceChildren();
  panels = [];
  try {
    panels = paper
      ? await beside(paper)
      : own?.frames
      ? [await follow(own)]
      : own
      ? [await open(own.name, own.text, own.point)]
      : [await open("Without a trunk", experiment(settings, { trunk: false })), await open("With a trunk", experiment(settings, { trunk: true }))];
  } catch (error) {
    at("wrong").textContent = error.message;
    at("wrong").hidden = false;
  }
  time = 0;
  at("controls").hidden = own !== null || paper !== null;
  offerPoints();
  offerWeights();
  draw();
  chart();
}

/** The points of the sweep of an experiment of one's own. */
function offerPoints() {
  const points = own && panels.length > 0 ? panels[0].simulation.described.points : [];
  at("points").hidden = points.length < 2;
  const named = (point) => Object.entries(point).map(([axis, value]) => `${axis} = ${value}`).join(", ");
  at("point").replaceChildren(...points.map((point, place) => new Option(named(point), String(place), false, place === own.point)));
}

/** Sliders for the weights of a trunk's classes, which change while it runs. */
function offerWeights() {
  const panel = panels.find(({ simulation }) => simulation.setWeight && simulation.described.trunks.length > 0);
  const trunks = panel?.simulation.described.trunks ?? [];
  const rows = trunks.flatMap(({ name, classes, weights }) => (classes.length < 2 ? [] : classes.map((each, place) => {
    const shown = Object.assign(document.createElement("output"), { textContent: weights[place] });
    const attributes = { type: "range", min: 1, max: Math.max(20, weights[place]), step: 1, value: weights[place] };
    const slider = Object.assign(document.createElement("input"), attributes);
    slider.addEventListener("input", () => {
      shown.textContent = slider.value;
      for (const way of [name, `${name}.back`]) panel.simulation.setWeight(way, each, Number(slider.value));
    });
    const row = document.createElement("label");
    row.append(`weight of class ${each}${trunks.length > 1 ? ` of ${name}` : ""}`, shown, slider);
    return row;
  })));
  at("weights").replaceChildren(...rows);
  at("weights").hidden = rows.length === 0;
}

/** The names of the queues in the core and at the edge, and of the groups. */
function subjects(panel) {
  const { links, trunks, traffic } = panel.simulation.described;
  const core = links.map(({ name }) => `${name}.queue.packets`);
  const edge = trunks.flatMap(({ name, classes }) => classes.map((each) => `${name}.${each}.queue.packets`));
  return { core, edge, groups: [...new Set(traffic.map(({ group }) => group))] };
}

const mean = (values) => (values.length > 0 ? values.reduce((total, value) => total + value, 0) / values.length : null);
const sum = (values, names) => names.reduce((total, name) => total + (values[name] || 0), 0);

function chart() {
  for (const plot of plots) plot.destroy();
  at("charts").replaceChildren();
  if (panels.length === 0) return;
  const style = getComputedStyle(document.documentElement);
  const axis = { stroke: style.getPropertyValue("--faint"), grid: { stroke: style.getPropertyValue("--line"), width: 0.5 } };
  const make = (title, series) => {
    const width = Math.max(280, Math.min(560, at("charts").clientWidth / (at("charts").clientWidth > 820 ? 2 : 1) - 16));
    const options = {
      title, width, height: 220, cursor: { drag: { x: false, y: false } },
      scales: { x: { time: false } },
      axes: [{ ...axis, label: "time, s" }, { ...axis, size: 60 }],
      series: [{ label: "s" }, ...series.map(({ label, color, dash }) => ({ label, stroke: color, dash, width: 2, value: (_, value) => (value == null ? "" : value.toFixed(1)) }))],
    };
    const plot = new uPlot(options, [[], ...series.map(() => [])], at("charts"));
    plot.of = series;
    plots.push(plot);
  };
  plots = [];
  const queue = style.getPropertyValue("--queue"), lane = style.getPropertyValue("--accent");
  const queues = [], rates = [];
  for (const [place, panel] of panels.entries()) {
    const { core, edge, groups } = subjects(panel);
    const dash = place === 0 && panels.length > 1 ? [5, 4] : undefined;
    const name = panels.length > 1 ? `, ${panel.title.toLowerCase()}` : "";
    queues.push({ panel, label: `in the core${name}`, color: queue, dash, of: (values) => sum(values, core) });
    if (edge.length > 0) queues.push({ panel, label: `at the edge${name}`, color: lane, of: (values) => sum(values, edge) });
    for (const group of groups) {
      rates.push({ panel, label: `${group}${name}`, color: panel.network.color(group), dash, over: 1 / EVERY, of: (values) => (values[`${group}.goodput`] || 0) / 1e6 });
    }
  }
  make("Packets that wait", queues);
  make("Goodput over a second, Mbit/s", rates);
  redraw();
  legend();
}

/** What the colours are. */
function legend() {
  const [panel] = panels;
  const entry = (text, color) => {
    const span = document.createElement("span");
    span.textContent = text;
    span.style.setProperty("--of", color);
    return span;
  };
  const groups = panel ? panel.network.groups.map((group) => entry(group, panel.network.color(group))) : [];
  const hasTrunk = panels.some(({ simulation }) => simulation.described.trunks.length > 0);
  const ofTrunk = hasTrunk ? [entry("lanes of the trunk", "var(--lane)"), entry("packets that wait at the edge, by class", "var(--accent)")] : [];
  at("legend").replaceChildren(...groups, entry("packets that wait in the core", "var(--queue)"), ...ofTrunk);
}

function redraw() {
  for (const plot of plots) {
    const times = (panels[0]?.sampled ?? []).map(({ time }) => time);
    const line = ({ panel, of, over = 1 }) => {
      const values = panel.sampled.map(({ values }) => of(values));
      return times.map((_, row) => mean(values.slice(Math.max(row + 1 - over, 0), row + 1)));
    };
    plot.setData([times, ...plot.of.map(line)]);
  }
}

/** What there is to see, in words. */
function tell() {
  const one = (panel) => {
    const { core, edge, groups } = subjects(panel);
    const { values } = panel.last;
    const lately = (group) => mean(panel.sampled.slice(-1 / EVERY).map((sample) => sample.values[`${group}.goodput`] || 0)) || 0;
    const rates = groups.map((group) => `${group} ${(lately(group) / 1e6).toFixed(2)} Mbit/s`).join(", ");
    const waiting = edge.length > 0 ? `${sum(values, core)} packets wait in the core and ${sum(values, edge)} at the edge` : `${sum(values, core)} packets wait in the core`;
    return `${panel.title}, after ${panel.simulation.now.toFixed(1)} s: ${waiting}; ${rates}.`;
  };
  at("told").textContent = panels.map(one).join(" ");
}

function draw() {
  for (const panel of panels) panel.network.draw(panel.canvas, panel.simulation, panel.last.values);
}

function advance(seconds) {
  time = Math.min(time + seconds, Math.min(...panels.map(({ simulation }) => simulation.described.duration)));
  for (const panel of panels) panel.runUntil(time);
  // Both go on from where the slower one is.
  time = Math.min(...panels.map(({ simulation }) => simulation.now));
}

let before = null;
/** For whoever looks from the console, and for the tests. */
window.trunkline = { frames: 0, panels: () => panels, text: (trunk) => experiment(settings, { trunk }) };

function frame(now) {
  const passed = before === null ? 0 : Math.min((now - before) / 1000, 0.1);
  before = now;
  if (isRunning && panels.length > 0) {
    try {
      advance(passed * Number(at("speed").value));
      draw();
      window.trunkline.frames += 1;
      if (now - drawn > 500) {
        redraw();
        drawn = now;
      }
      if (now - told > 2000) {
        tell();
        told = now;
      }
    } catch (error) {
      isRunning = false;
      at("wrong").textContent = error.message;
      at("wrong").hidden = false;
    }
  }
  requestAnimationFrame(frame);
}

// ---------------------------------------------------------------- controls

function keep() {
  const changed = Object.entries(settings).filter(([name, value]) => defaults()[name] !== value);
  history.replaceState(null, "", changed.length > 0 ? `#${new URLSearchParams(changed)}` : location.pathname);
}

function restore() {
  for (const [name, given] of new URLSearchParams(location.hash.slice(1))) {
    const range = SETTINGS[name];
    const value = Number(given);
    if (range && value >= range.min && value <= range.max) settings[name] = value;
    if (CHOICES[name]?.options.includes(given)) settings[name] = given;
  }
}

function showSettings() {
  for (const [name, { unit }] of Object.entries(SETTINGS)) {
    at(`set-${name}`).value = settings[name];
    at(`shown-${name}`).textContent = `${settings[name]} ${unit}`;
  }
  for (const name of Object.keys(CHOICES)) at(`set-${name}`).value = settings[name];
}

function change(name, value) {
  settings[name] = value;
  showSettings();
  keep();
  const live = SETTINGS[name]?.live;
  if (!live || panels.length !== 2) return begin();
  const scale = { rate: 1e6, delay: 1e-3, loss: 1e-2 }[live];
  for (const { simulation } of panels) for (const way of ["wan", "wan.back"]) simulation.setLink(way, { [live]: value * scale });
  return undefined;
}

function build() {
  for (const [name, { min, max, step, label }] of Object.entries(SETTINGS)) {
    const row = document.createElement("label");
    row.append(label, Object.assign(document.createElement("output"), { id: `shown-${name}` }));
    const slider = Object.assign(document.createElement("input"), { type: "range", id: `set-${name}`, min, max, step });
    const event = SETTINGS[name].live ? "input" : "change";
    slider.addEventListener(event, () => change(name, Number(slider.value)));
    row.append(slider);
    at("controls").append(row);
  }
  for (const [name, { options, label }] of Object.entries(CHOICES)) {
    const row = document.createElement("label");
    const select = Object.assign(document.createElement("select"), { id: `set-${name}` });
    for (const option of options) select.append(new Option(option, option));
    select.addEventListener("change", () => change(name, select.value));
    row.append(label, select);
    at("controls").append(row);
  }
  for (const [label, group] of [["Two sites", PRESETS], ["From papers", PAPERS]]) {
    const options = Object.assign(document.createElement("optgroup"), { label });
    for (const [name, { title }] of Object.entries(group)) options.append(new Option(title, name));
    at("preset").append(options);
  }
  at("preset").addEventListener("change", () => {
    const name = at("preset").value;
    [own, paper] = [null, PAPERS[name] ?? null];
    const { set, look } = PRESETS[name] ?? paper;
    Object.assign(settings, defaults(), set);
    at("look").textContent = look;
    showSettings();
    keep();
    begin();
  });
  at("play").addEventListener("click", () => {
    isRunning = !isRunning;
    at("play").textContent = isRunning ? "Pause" : "Go on";
    at("play").setAttribute("aria-pressed", String(isRunning));
  });
  at("step").addEventListener("click", () => {
    if (isRunning) at("play").click();
    advance(0.1);
    draw();
    redraw();
    tell();
  });
  at("again").addEventListener("click", begin);
  const take = async (file) => {
    paper = null;
    own = { name: file.name, text: await file.text(), point: 0 };
    at("look").textContent = "";
    begin();
  };
  at("point").addEventListener("change", () => {
    own.point = Number(at("point").value);
    begin();
  });
  at("file").addEventListener("change", () => at("file").files[0] && take(at("file").files[0]));
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", chart);
  addEventListener("resize", chart);
}

/** What `trunkline lab watch` serves beside the page, if it serves the page. */
async function given() {
  const { content } = document.querySelector("meta[name=watch]") ?? {};
  if (!content) return;
  own = await (await fetch(content)).json();
  at("look").textContent = own.title;
  at("preset").selectedIndex = -1;
  at("about").textContent = own.frames
    ? "What a run on the kernel of the machine that serves this page measures: what waits, what is dropped, what arrives."
    : "Every packet is simulated in this page, to the bit as trunkline lab run does it.";
  // What a run on a kernel cannot be told from here.
  at("choices").hidden = Boolean(own.frames);
}

/** Begins, with the module's bytes and the texts of experiments. */
export async function start(bytes, experiments) {
  texts = experiments;
  build();
  Object.assign(settings, PRESETS.backups.set);
  at("look").textContent = PRESETS.backups.look;
  if (location.hash.length > 1) {
    Object.assign(settings, defaults());
    at("look").textContent = "";
  }
  restore();
  showSettings();
  module = await compile(bytes);
  await given();
  await begin();
  requestAnimationFrame(frame);
  document.documentElement.dataset.ready = "yes";
}
