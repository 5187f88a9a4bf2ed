// Draws a network as its controller knows it: links, sites, trunks, and what was changed lately.

import { drawn, element, fill, tableOf } from "./tables.js";

/** How often it is asked, ms. */
const EVERY = 5000;
/** Nodes that are drawn at most, and rows of a table. */
const DRAWN = 60;
const ROWS = 300;
/** Changes that are listed. */
const LATELY = 20;

const at = (id) => document.getElementById(id);
let status = null;
let plan = null;
let events = [];

async function ask(path) {
  const response = await fetch(path);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

async function renew() {
  try {
    const before = status;
    status = await ask("v1/status");
    if (status.revision > 0 && status.revision !== before?.revision) plan = await ask("v1/plan");
    if (status.sequence !== before?.sequence) events = await ask(`v1/events?after=${Math.max(status.sequence - LATELY, 0)}`);
    at("notice").hidden = true;
    show();
  } catch (error) {
    at("notice").hidden = false;
    at("notice").textContent = `the controller does not answer, retrying: ${error.message}`;
  }
}

const text = (value, tone = "plain") => ({ text: String(value), tone });
const mbit = (rate) => (rate / 1e6).toFixed(rate < 1e7 ? 2 : rate < 1e8 ? 1 : 0);
const right = (title) => ({ title, align: "right" });
const left = (title) => ({ title, align: "left" });

/** Rates of both directions, one number where they are equal. */
const both = ({ forth, back }) => (forth === back ? mbit(forth) : `${mbit(forth)} / ${mbit(back)}`);

/** Which part of a link is reserved, in the direction where it is more. */
const share = ({ reservable, reserved }) => Math.max(...["forth", "back"].map((way) => (reservable[way] > 0 ? reserved[way] / reservable[way] : 0)));

function table(title, columns, rows) {
  const wanted = at("filter").value.trim().toLowerCase();
  const shown = rows.filter(([name, ...cells]) => !wanted || [name, ...cells.map(({ text }) => text)].some((each) => each.toLowerCase().includes(wanted)));
  const values = shown.slice(0, ROWS).map(([name, ...cells]) => ({ values: { name, cells } }));
  return { key: title, make: () => tableOf({ title, columns, rows: values, left_out: Math.max(shown.length - ROWS, 0) }, "trunkline controller export, or a part of a name above") };
}

function show() {
  const { revision, carried, refused, sites, problems } = status;
  const connected = sites.filter((site) => site.connected).length;
  at("summary").textContent = `${sites.length} sites   revision ${revision}`;
  at("activity").textContent = `${connected} sites ask   ${carried} trunks carried   ${refused} refused`;
  const parts = [];
  const wrong = Object.entries(problems).map(([trunk, why]) => [trunk, text(why, "bad")]);
  if (wrong.length > 0) parts.push(table("trunks that cannot come up", [left("why")], wrong));
  const short = sites.flatMap(({ name, short: all }) => all.map(({ peer, reserved, capacity }) => [`${name} to ${peer}`, text(mbit(reserved)), text(mbit(capacity), "bad")]));
  if (status.rollout) parts.push(table("roll-out", [right("step"), right("since"), right("trunks changed"), left("waits for")], [rolloutRow(status.rollout)]));
  if (short.length > 0) parts.push(table("trunks that have less than is reserved", [right("reserved Mbit/s"), right("measured Mbit/s")], short));
  parts.push(table("sites", [left("state"), right("asked"), left("configuration"), right("trunks up"), left("remark")], sites.map(siteRow)));
  if (plan) {
    parts.push(table("trunks", [left("state"), right("guarantee Mbit/s"), right("measured Mbit/s"), left("way")], plan.trunks.map(trunkRow)));
    parts.push(table("links", [left("between"), right("may be reserved Mbit/s"), right("is reserved Mbit/s"), right("part")], plan.links.map(linkRow)));
  }
  if (events.length > 0) {
    const lately = [...events].reverse().map(({ at: when, by, what }) => [new Date(when * 1000).toISOString().replace("T", " ").slice(0, 19), text(by), text(what)]);
    parts.push(table("changed lately (UTC)", [left("by"), left("what")], lately));
  }
  fill(at("tables"), parts);
  draw();
}

function rolloutRow({ revision, step, steps, since_s: since, changed, changing, waits_for: waits }) {
  const more = waits.length > 3 ? [`and ${waits.length - 3} more`] : [];
  return [`revision ${revision}`, text(`${step} of ${steps}`), text(`${since} s`), text(`${changed} of ${changing}`), text([...waits.slice(0, 3), ...more].join("; "), "warn")];
}

function siteRow({ name, public_key: key, seen_s: seen, connected, current, report }) {
  const state = !key ? text("not enrolled", "faint") : connected ? text(report?.running ? "runs" : "asks, its gateway is down", report?.running ? "good" : "bad") : text("away", "bad");
  const up = report ? `${report.peers.filter((peer) => peer.up).length} of ${report.peers.length}` : "-";
  const has = !key ? text("-") : current ? text("as planned") : text("an older one", "warn");
  return [name, state, text(seen == null ? "-" : `${seen} s ago`), has, text(up), text(report?.error ?? "", "bad")];
}

/** What the sites at both ends say of a trunk. */
function reports([one, other]) {
  const said = (site, peer) => status.sites.find(({ name }) => name === site)?.report?.peers.find(({ name }) => name === peer);
  return [said(one, other), said(other, one)];
}

function because({ short, fits, gave_way_to: other }) {
  const lacks = short.map(({ link, from, to, left, missing }) => `${link} from ${from} to ${to} has ${mbit(left)} left, ${mbit(missing)} are missing`);
  const reasons = other ? [`gave way to ${other}`] : lacks.length > 0 ? lacks : ["no way joins the sites"];
  return [...reasons, ...(fits ? [`${both(fits)} would fit`] : [])].join("; ");
}

function trunkRow({ name, sites, guarantee, way, backup, refused }) {
  const said = reports(sites).filter(Boolean);
  const state = refused ? text("refused", "bad") : said.length === 0 ? text("nothing known", "faint") : said.every(({ up }) => up) ? text("up", "good") : text("down", "bad");
  const measured = said.map(({ capacity }) => (capacity == null ? "-" : mbit(capacity))).join(" / ") || "-";
  const ways = refused ? because(refused) : `${way.join(", ")}${backup ? `; backup: ${backup.join(", ")}` : ""}`;
  return [`${name}: ${sites.join(" to ")}`, state, text(both(guarantee)), text(measured), text(ways)];
}

function linkRow(link) {
  const part = share(link);
  return [link.name, text(link.ends.join(" and ")), text(both(link.reservable)), text(both(link.reserved)), text(`${(100 * part).toFixed(0)} %`, part > 0.999 ? "warn" : "plain")];
}

/** Sites on a circle, what is between them within. */
function draw() {
  const links = plan?.links ?? [];
  const names = [...new Set(links.flatMap(({ ends }) => ends))];
  at("network").hidden = names.length === 0 || names.length > DRAWN;
  if (at("network").hidden) return;
  const known = new Map(status.sites.map((site) => [site.name, site]));
  const outer = names.filter((name) => known.has(name)), inner = names.filter((name) => !known.has(name));
  const [width, height] = [900, 460];
  const places = new Map();
  for (const [ring, radius] of [[outer, 0.42], [inner, inner.length > 1 ? 0.18 : 0]]) {
    ring.forEach((name, number) => {
      const angle = (2 * Math.PI * number) / ring.length - Math.PI / 2;
      places.set(name, [width / 2 + 0.8 * width * radius * Math.cos(angle), height / 2 + height * radius * Math.sin(angle)]);
    });
  }
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "The network; the table of links below says the same in numbers" });
  const most = Math.max(...links.map(({ reservable }) => Math.max(reservable.forth, reservable.back)), 1);
  for (const link of links) {
    const [[x1, y1], [x2, y2]] = link.ends.map((name) => places.get(name));
    const wide = 2 + 10 * Math.sqrt(Math.max(link.reservable.forth, link.reservable.back) / most);
    picture.append(drawn("line", { x1, y1, x2, y2, class: "link", "stroke-width": wide }));
    const part = share(link);
    if (part > 0) picture.append(drawn("line", { x1, y1, x2, y2, class: part > 0.999 ? "full" : "reserved", "stroke-width": Math.max(wide * part, 1) }));
  }
  for (const name of names) {
    const [x, y] = places.get(name);
    const site = known.get(name);
    picture.append(site ? drawn("circle", { cx: x, cy: y, r: 7, class: site.connected ? "node" : "node away" }) : drawn("rect", { x: x - 6, y: y - 6, width: 12, height: 12, class: "node" }));
    picture.append(drawn("text", { x, y: y - 12, "text-anchor": "middle" }, name));
  }
  at("drawing").replaceChildren(element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Drawing" }, [picture]));
}

at("filter").addEventListener("input", () => status && show());
setInterval(renew, EVERY);
renew();
window.trunkline = { status: () => status, plan: () => plan };
