// The page of a running gateway in a browser. `node --test`, with TRUNKLINE (the program), TRUNKLINE_URL (where `trunkline web` serves),
// TRUNKLINE_SOCKET (the gateway's) and BROWSER. The gateway carries 16 Mbit/s.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { fitsPhones, isAccessible, isFirefox, open } from "./browser.mjs";

const { TRUNKLINE, TRUNKLINE_URL, TRUNKLINE_SOCKET } = process.env;
let browser, page;

before(async () => {
  browser = await open(TRUNKLINE_URL);
  page = browser.page;
  await page.waitForFunction(() => document.querySelectorAll("#tables table").length >= 4 && document.querySelectorAll("#charts figure").length >= 4, { timeout: 20_000 });
});

after(() => browser?.close());

/** The rows of a table by their names, each a cell by its column. */
const table = (title) => page.evaluate((title) => {
  const found = [...document.querySelectorAll("table")].find((each) => each.caption.textContent === title);
  const columns = [...found.tHead.rows[0].cells].map((cell) => cell.textContent);
  const rows = [...found.tBodies[0].rows].filter((row) => row.cells.length === columns.length);
  return Object.fromEntries(rows.map((row) => [row.cells[0].textContent, Object.fromEntries(columns.map((column, place) => [column, row.cells[place].textContent]))]));
}, title);

test("its numbers are those of the command line", async () => {
  const status = JSON.parse(execFileSync(TRUNKLINE, ["status", "--json", TRUNKLINE_SOCKET], { encoding: "utf8" }));
  const [peer] = status.peers;
  const classes = await table("Classes");
  assert.deepEqual(Object.keys(classes), peer.classes.map(({ name }) => name));
  for (const { name, discipline, weight } of peer.classes) {
    assert.deepEqual([classes[name].queue, classes[name].weight], [discipline, String(weight)]);
  }
  const lanes = await table("Lanes");
  assert.equal(Object.keys(lanes).length, peer.lanes.length);
  assert.ok(Object.values(lanes).every(({ state }) => state === "up"));
  const [once] = execFileSync(TRUNKLINE, ["top", "--once", TRUNKLINE_SOCKET], { encoding: "utf8" }).split("\n");
  assert.match(once, /^trunkline a +up .* 1 peer/);
  assert.match(await page.$eval("#site", (element) => element.textContent), /^a +up .* 1 peer/);
  // What is sent is the same by both, over the same seconds.
  const counted = () => JSON.parse(execFileSync(TRUNKLINE, ["status", "--json", TRUNKLINE_SOCKET], { encoding: "utf8" }));
  const bytes = (state) => state.peers[0].classes.reduce((sum, each) => sum + each.bytes_sent, 0);
  const first = counted();
  await page.waitForFunction((since) => window.trunkline.latest().at > since + 8000, { timeout: 20_000 }, Date.now());
  const second = counted();
  const sent = await page.evaluate(() => [...window.trunkline.live.values()].filter(({ chart }) => chart === "sent")
    .map(({ points }) => points.slice(-8).reduce((sum, [, value]) => sum + value, 0) / 8).reduce((sum, value) => sum + value, 0));
  const rate = ((bytes(second) - bytes(first)) * 8) / (second.uptime_s - first.uptime_s) / 1e6;
  assert.ok(rate > 1 && Math.abs(sent - rate) < 0.25 * rate, `${sent} and ${rate} Mbit/s`);
});

test("it moves, and stands still when it is told to", async () => {
  const first = await page.evaluate(() => window.trunkline.latest().at);
  await sleep(3500);
  const second = await page.evaluate(() => window.trunkline.latest().at);
  assert.ok(second >= first + 2000, `${first} ${second}`);
  const lines = await page.$$eval("#charts figure > svg > path", (paths) => paths.map((path) => path.getAttribute("d")));
  assert.ok(lines.some((line) => (line.match(/L/g) ?? []).length > 2), lines.join("\n"));
  await page.click("#pause");
  const still = await page.$eval("#site", (element) => element.textContent);
  await sleep(2500);
  assert.equal(await page.$eval("#site", (element) => element.textContent), still);
  await page.click("#pause");
});

test("it shows the hours before it was opened", async () => {
  await page.select("#span", "21600");
  await page.waitForFunction(() => [...document.querySelectorAll("#charts text")].some(({ textContent }) => textContent === "6 h ago"), { timeout: 5000 });
  const points = await page.evaluate(() => Math.max(...[...window.trunkline.kept().values()].map(({ points }) => points.length)));
  assert.ok(points >= 1, `${points}`);
  await page.select("#span", "300");
});

test("a narrow page does not scroll sideways", () => fitsPhones(page));

test("axe finds nothing serious", { skip: isFirefox }, () => isAccessible(page));

test("nothing was thrown or forbidden", () => assert.deepEqual(browser.errors, []));
