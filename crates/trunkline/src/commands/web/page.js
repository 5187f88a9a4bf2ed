// Draws what the gateway says of itself: tables of now, and curves over time.

import { drawn, element, fill, tableOf } from "./tables.js";

const CHARTS = {
  sent: { title: "Sent, Mbit/s", of: "classes" },
  edge: { title: "Wait at the edge, 99th percentile, ms", of: "classes" },
  core: { title: "Queue in the core, ms", of: "paths" },
  drops: { title: "Drops at the edge a second", of: "classes" },
  received: { title: "Received, Mbit/s", of: "peers" },
  proxies: { title: "Delivered by proxies, Mbit/s", of: "proxies" },
};
/** Told apart by people who see few colours too (Okabe and Ito 2008); further curves are dashed. */
const COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];
const DASHES = ["", "6 3", "2 2"];
/** Curves of a chart that are drawn: those that are highest now. */
const DRAWN = 12;
/** How long what came live is kept, s: beyond, there is the history. */
const LIVE = 300;

const at = (id) => document.getElementById(id);
/** Of each chart and curve its points [time in ms, value]: of the last minutes, and of the last hours. */
const live = new Map();
let kept = new Map();
let isPaused = false;
let latest = null;
let fetched = 0;

function curve(curves, chart, name) {
  const key = `${chart} ${name}`;
  if (!curves.has(key)) curves.set(key, { chart, name, points: [] });
  return curves.get(key);
}

async function fetchHistory() {
  fetched = Date.now();
  const { curves, points } = await (await fetch("history.json")).json();
  kept = new Map();
  for (const [time, values] of points) {
    for (const [place, value] of values) curve(kept, ...curves[place]).points.push([time, value]);
  }
}

function take(frame) {
  latest = frame;
  for (const { chart, name, value } of frame.readings) curve(live, chart, name).points.push([frame.at, value]);
  for (const [key, { points }] of live) {
    while (points.length > 0 && points[0][0] < frame.at - LIVE * 1000) points.shift();
    if (points.length === 0) live.delete(key);
  }
  if (Date.now() - fetched > 30_000) fetchHistory().catch(() => {});
  if (!isPaused) show();
}

function show() {
  if (!latest) return;
  const { summary, activity, notice, tables } = latest;
  at("notice").hidden = !notice;
  if (at("notice").textContent !== (notice ?? "")) at("notice").textContent = notice ?? "";
  if (summary) {
    at("site").textContent = summary;
    document.title = `${summary.split(" ")[0]}: Trunkline`;
    at("activity").textContent = activity;
    fill(at("tables"), tables.map((table) => ({ key: table.title, make: () => tableOf(table, "trunkline status --json") })));
  }
  charts();
}

function charts() {
  const span = Number(at("span").value);
  const to = latest.at;
  const curves = new Map(span > LIVE ? kept : live);
  const parts = Object.entries(CHARTS).map(([chart, about]) => {
    const of = [...curves.values()].filter((each) => each.chart === chart && each.points.length > 0);
    return of.length > 0 && { key: chart, make: () => chartOf(about, of, [to - span * 1000, to]) };
  });
  fill(at("charts"), parts.filter(Boolean));
}

const short = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

function chartOf({ title, of }, curves, [from, to]) {
  const last = ({ points }) => points[points.length - 1][1];
  const shown = [...curves].sort((one, other) => last(other) - last(one)).slice(0, DRAWN).sort((one, other) => one.name.localeCompare(other.name));
  const [width, height, left, bottom] = [(at("charts").querySelector("svg")?.clientWidth || 500), 150, 44, 20];
  const seen = shown.flatMap(({ points }) => points.filter(([time]) => time >= from).map(([, value]) => value));
  const top = rounded(Math.max(...seen, 1e-3));
  const x = (time) => left + ((time - from) / (to - from)) * (width - left - 4);
  const y = (value) => 6 + (1 - value / top) * (height - bottom - 6);
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  for (const part of [0, 0.5, 1]) {
    picture.append(drawn("line", { x1: left, x2: width, y1: y(top * part), y2: y(top * part) }));
    picture.append(drawn("text", { x: left - 6, y: y(top * part) + 4, "text-anchor": "end" }, short(top * part)));
  }
  const ago = (to - from) / 1000;
  for (const [part, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
    const seconds = ago * (1 - part);
    const text = seconds === 0 ? "now" : seconds >= 3600 ? `${seconds / 3600} h ago` : seconds >= 60 ? `${seconds / 60} min ago` : `${seconds} s ago`;
    picture.append(drawn("text", { x: left + part * (width - left - 4), y: height - 5, "text-anchor": anchor }, text));
  }
  const style = (place) => ({ stroke: COLORS[place % COLORS.length], "stroke-dasharray": DASHES[Math.floor(place / COLORS.length) % DASHES.length] });
  shown.forEach(({ points }, place) => {
    const between = 3 * Math.max(1000, ...points.slice(1, 4).map(([time], index) => time - points[index][0]));
    let line = "";
    points.forEach(([time, value], index) => {
      if (time < from) return;
      const isNew = line === "" || time - points[index - 1][0] > between;
      line += `${isNew ? "M" : "L"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
    });
    picture.append(drawn("path", { d: line, ...style(place) }));
  });
  const legend = shown.map((each, place) => {
    const key = drawn("svg", { viewBox: "0 0 20 10", "aria-hidden": "true" });
    key.append(drawn("path", { d: "M0 5L20 5", ...style(place) }));
    const item = element("li", {}, [key, `${each.name} ${short(last(each))}`]);
    return item;
  });
  if (curves.length > shown.length) legend.push(element("li", { class: "faint" }, [`and ${curves.length - shown.length} more ${of}`]));
  return element("figure", {}, [element("h2", {}, [title]), picture, element("figcaption", {}, [element("ul", {}, legend)])]);
}

/** The next of 1, 2 and 5 times a power of ten. */
function rounded(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((step) => step * power >= value * 0.999);
}

at("span").addEventListener("change", () => fetchHistory().catch(() => {}).then(show));
at("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  at("pause").setAttribute("aria-pressed", String(isPaused));
  at("pause").textContent = isPaused ? "Go on" : "Pause";
  show();
});

fetchHistory().then(() => {
  // The last minutes from before the page was opened, as coarse as they were kept, by the clock of the gateway's machine.
  const newest = Math.max(...[...kept.values()].map(({ points }) => points[points.length - 1][0]));
  for (const { chart, name, points } of kept.values()) {
    const { points: known } = curve(live, chart, name);
    known.unshift(...points.filter(([time]) => time > newest - LIVE * 1000 && !(time >= known[0]?.[0])));
  }
}).catch(() => {});
const events = new EventSource("live");
events.onmessage = ({ data }) => take(JSON.parse(data));
events.onerror = () => {
  at("notice").hidden = false;
  at("notice").textContent = "the page's server does not answer, retrying";
};
window.trunkline = { latest: () => latest, live, kept: () => kept };
