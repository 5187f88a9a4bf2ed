// The page in a browser. `node --test`, with TRUNKLINE (the program), TRUNKLINE_PAGE (what build.mjs made) and BROWSER (Chromium or Firefox).

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { fitsPhones, isAccessible, isFirefox, open } from "./browser.mjs";

const { TRUNKLINE, TRUNKLINE_PAGE } = process.env;
let browser, page, scratch;

before(async () => {
  browser = await open(`file://${TRUNKLINE_PAGE}`);
  ({ page, scratch } = browser);
  await page.waitForSelector("html[data-ready=yes]", { timeout: 30_000 });
});

after(() => browser?.close());

const now = () => page.evaluate(() => window.trunkline.panels().map(({ simulation }) => simulation.now));

test("it moves, and says in words what it draws", async () => {
  const start = await now();
  assert.equal(start.length, 2);
  await page.waitForFunction((start) => window.trunkline.panels().every(({ simulation }, place) => simulation.now > start[place] + 2), { timeout: 60_000 }, start);
  // Twice as long as between two texts.
  await sleep(4000);
  const told = await page.$eval("#told", (element) => element.textContent);
  assert.match(told, /Without a trunk, after .* packets wait in the core; backup .* With a trunk, .* at the edge/);
  const drawn = await page.$eval("canvas.network", (canvas) => new Set(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data).size);
  assert.ok(drawn > 20, "something is drawn");
});

test("its numbers are the program's", async () => {
  await page.click("#play");
  for (const [place, trunk] of [[0, false], [1, true]]) {
    const [until, digest, text] = await page.evaluate((place, trunk) => {
      const { simulation } = window.trunkline.panels()[place];
      const until = Math.ceil(simulation.now);
      simulation.runUntil(until);
      return [until, simulation.digest(), window.trunkline.text(trunk)];
    }, place, trunk);
    writeFileSync(join(scratch, "page.toml"), text.replace("10000 s", `${until} s`));
    const out = join(scratch, `out-${place}`);
    execFileSync(TRUNKLINE, ["lab", "run", join(scratch, "page.toml"), "--set", "runs=1", "--out", out]);
    const [run] = readFileSync(join(out, "page", "runs.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
    assert.equal(digest, run.digest, trunk ? "with a trunk" : "without");
  }
  await page.click("#play");
});

test("what the examples say is what happens", async () => {
  const mean = async (preset, seconds) => {
    await page.select("#preset", preset);
    await sleep(300);
    return page.evaluate((seconds) => window.trunkline.panels().map((panel) => {
      panel.runUntil = () => {};
      while (panel.simulation.now < seconds) {
        panel.simulation.runUntil(panel.simulation.now + 0.1);
        panel.sample();
      }
      const over = panel.sampled.slice(-50);
      return Object.fromEntries(panel.simulation.described.overview.map((name) => [name, over.reduce((sum, { values }) => sum + (values[name] || 0), 0) / over.length]));
    }), seconds);
  };
  const [floodWithout, floodWith] = await mean("flood", 15);
  assert.ok(floodWithout["backup.goodput"] < 0.1 * floodWith["backup.goodput"], "a flood starves TCP where there is no trunk");
  const [without, withTrunk] = await mean("backups", 15);
  assert.ok(without["wan.queue.packets"] > 100 && withTrunk["wan.queue.packets"] < 30, "the queue goes to the edge");
});

test("the papers' experiments run at the points that are named", async () => {
  const names = await page.$$eval("#preset optgroup:nth-of-type(2) option", (options) => options.map(({ value }) => value));
  assert.equal(names.length, 6);
  for (const name of names) {
    await page.select("#preset", name);
    await page.waitForFunction(() => window.trunkline.panels().length === 2 && window.trunkline.panels().every(({ simulation }) => simulation.now > 0.2), { timeout: 20_000 });
    assert.ok(await page.$eval("#wrong", (element) => element.hidden), name);
    const points = await page.evaluate(() => window.trunkline.panels().map(({ simulation: { described } }) => JSON.stringify(described.points[described.point])));
    assert.notEqual(points[0], points[1], name);
  }
});

test("a slider changes the network while it runs, and the address keeps it", async () => {
  await page.select("#preset", "backups");
  await sleep(500);
  await page.evaluate(() => {
    const slider = document.getElementById("set-rate");
    slider.value = "2";
    slider.dispatchEvent(new Event("input"));
  });
  const goodput = await page.evaluate(() => {
    const [panel] = window.trunkline.panels();
    const begun = panel.simulation.now;
    panel.runUntil = () => {};
    while (panel.simulation.now < begun + 5) {
      panel.simulation.runUntil(panel.simulation.now + 0.1);
      panel.sample();
    }
    const lately = panel.sampled.slice(-20).map(({ values }) => values["backup.goodput"] || 0);
    return begun > 0 && lately.reduce((sum, rate) => sum + rate, 0) / lately.length;
  });
  assert.match(await page.evaluate(() => location.hash), /rate=2/);
  assert.ok(goodput, "it went on");
  assert.ok(goodput < 2.5e6, `${goodput}`);
});

test("a class has the part of the line that its weight says, from the moment it is changed", async () => {
  await page.select("#preset", "flood");
  await page.waitForFunction(() => document.querySelectorAll("#weights input").length === 3, { timeout: 5000 });
  const rate = (weight) => page.evaluate((weight) => {
    const [, panel] = window.trunkline.panels();
    panel.runUntil = () => {};
    // The class of all else has the flood.
    const slider = [...document.querySelectorAll("#weights label")].find(({ textContent }) => textContent.includes("class other")).querySelector("input");
    slider.value = String(weight);
    slider.dispatchEvent(new Event("input"));
    const until = panel.simulation.now + 12;
    while (panel.simulation.now < until) {
      panel.simulation.runUntil(panel.simulation.now + 0.1);
      panel.sample();
    }
    return panel.sampled.slice(-50).reduce((sum, { values }) => sum + (values["flood.goodput"] || 0), 0) / 50;
  }, weight);
  const even = await rate(1);
  const heavy = await rate(4);
  assert.ok(heavy > 1.25 * even, `${even} ${heavy}`);
});

test("an experiment of one's own runs at the point that one chooses, and what is wrong with it is said", async () => {
  const file = join(scratch, "own.toml");
  writeFileSync(file, "id = 7");
  const input = await page.$("#file");
  await input.uploadFile(file);
  await page.waitForFunction(() => !document.getElementById("wrong").hidden, { timeout: 5000 });
  assert.match(await page.$eval("#wrong", (element) => element.textContent), /experiment\.toml:1:/);
  const text = await page.evaluate(() => window.trunkline.text(false));
  // A browser does not say so when the same file is chosen again.
  const another = join(scratch, "sweep.toml");
  writeFileSync(another, `${text}[sweep.loss]\npaths = ["links.wan.loss"]\nvalues = ["0 %", "3 %"]\n`);
  await input.uploadFile(another);
  await page.waitForFunction(() => !document.getElementById("points").hidden && document.getElementById("wrong").hidden, { timeout: 5000 });
  await page.select("#point", "1");
  await page.waitForFunction(() => window.trunkline.panels()[0]?.simulation.described.point === 1, { timeout: 5000 });
  assert.ok(await page.$eval("#controls", (element) => element.hidden), "its settings are in the file");
  await page.select("#preset", "flood");
});

test("a narrow page does not scroll sideways", () => fitsPhones(page));

test("axe finds nothing serious, in the light and in the dark", { skip: isFirefox }, () => isAccessible(page));

test("nothing was thrown", () => assert.deepEqual(browser.errors, []));
