// `trunkline lab watch` in a browser. `node --test`, with TRUNKLINE (the program), TRUNKLINE_PAGE (what build.mjs made) and BROWSER.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { open } from "./browser.mjs";

const { TRUNKLINE, TRUNKLINE_PAGE } = process.env;
const scratch = mkdtempSync(join(tmpdir(), "trunkline-watch-"));
const file = join(scratch, "line.toml");

before(() => writeFileSync(file, `
id = "line"
title = "A file over a line"
duration = "20 s"
runs = 1
[nodes]
a = "host"
b = "host"
[links.wan]
ends = ["a", "b"]
rate = "10 Mbit/s"
delay = "10 ms"
[traffic.bulk]
kind = "bulk"
from = "a"
to = "b"
[sweep.loss]
paths = ["links.wan.loss"]
values = ["0 %", "1 %"]
`));

after(() => rmSync(scratch, { recursive: true, force: true }));

/** Serves it, and gives what is open in a browser to `look`. */
async function watched(more, look) {
  const program = spawn(TRUNKLINE, ["lab", "watch", file, "--at", "loss=1 %", "--page", TRUNKLINE_PAGE, "--listen", "127.0.0.1:0", ...more], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(program.stdout, "data");
  const browser = await open(String(line).trim());
  try {
    await browser.page.waitForSelector("html[data-ready=yes]", { timeout: 30_000 });
    await look(browser.page);
    assert.deepEqual(browser.errors, []);
  } finally {
    await browser.close();
    program.kill("SIGINT");
    const [code] = await once(program, "exit");
    assert.equal(code, 0);
  }
}

test("an experiment of one's own is simulated in the page, as the command line does", () => watched([], async (page) => {
  const [point, digest] = await page.evaluate(() => {
    const [{ simulation }] = window.trunkline.panels();
    simulation.runUntil(20);
    return [simulation.described.point, simulation.digest()];
  });
  assert.equal(point, 1);
  execFileSync(TRUNKLINE, ["lab", "run", file, "--out", join(scratch, "out")]);
  const runs = readFileSync(join(scratch, "out", "line", "runs.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  assert.equal(digest, runs.find((run) => run.point.loss === "1 %").digest);
}));

test("what a run on the kernel measures is shown as it goes", { skip: process.getuid() !== 0 && "needs root" }, () => watched(["--engine", "testbed"], async (page) => {
  await page.waitForFunction(() => window.trunkline.panels()[0]?.simulation.now > 3, { timeout: 60_000 });
  const goodput = await page.evaluate(() => {
    const [panel] = window.trunkline.panels();
    return panel.sampled.slice(-10).reduce((sum, { values }) => sum + values["bulk.goodput"], 0) / 10;
  });
  assert.ok(goodput > 0.2e6 && goodput < 10e6, `${goodput}`);
  assert.match(await page.$eval("#about", (element) => element.textContent), /kernel/);
}));
