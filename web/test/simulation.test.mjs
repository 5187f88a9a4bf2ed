// Runs of the module are those of the program. `node --test`, with TRUNKLINE (the program) and TRUNKLINE_WASM (the module) in the environment.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Simulation, compile } from "../simulation.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const module = await compile(readFileSync(process.env.TRUNKLINE_WASM));
const scratch = mkdtempSync(join(tmpdir(), "trunkline-web-"));
after(() => rmSync(scratch, { recursive: true }));

const made = new Map();

/** The experiment as it runs with `--quick`, and its runs by the program. */
function byTheProgram(name) {
  if (!made.has(name)) made.set(name, run(name));
  return made.get(name);
}

function run(name) {
  const out = join(scratch, name);
  execFileSync(process.env.TRUNKLINE, ["lab", "run", name, "--quick", "--set", "runs=1", "--out", out], { cwd: root });
  const runs = readFileSync(join(out, name, "runs.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  return { text: readFileSync(join(out, name, "experiment.toml"), "utf8"), runs };
}

// Trunks, tunnels and proxies, losses, jitter and rates that change, CUBIC, Reno and BBR, tail drop, RED and FQ-CoDel.
for (const name of ["two-offices", "honda2005-fig7", "lee2002-fig7", "bosau2004-fig3", "own-hard-paths", "agreement"]) {
  test(`${name}: the digest and the metrics of every point are the program's`, async () => {
    const { text, runs } = byTheProgram(name);
    const { described } = await Simulation.open(module, text);
    assert.equal(described.points.length, runs.length);
    for (const [point, run] of runs.entries()) {
      assert.deepEqual(described.points[point], run.point);
      const whole = await Simulation.open(module, text, { point, seed: run.seed });
      assert.deepEqual(whole.measure(), run.metrics, `${name} ${JSON.stringify(run.point)}`);
      assert.equal(whole.digest(), run.digest, `${name} ${JSON.stringify(run.point)}`);
    }
  });
}

test("a run in steps is the same, and its values are there", async () => {
  const { text, runs } = byTheProgram("two-offices");
  const watch = ["wan.queue.packets", "backup.goodput"];
  const steps = await Simulation.open(module, text, { point: 1, seed: runs[1].seed });
  steps.watch(watch);
  while (steps.now < steps.described.duration) {
    steps.runUntil(Math.min(steps.now + 0.37, steps.described.duration));
    const [packets, goodput] = steps.read();
    assert.ok(packets >= 0 && packets <= 300 && goodput >= 0 && goodput < 20e6);
  }
  assert.equal(steps.digest(), runs[1].digest);
});

test("a link that changes is felt", async () => {
  const { text } = byTheProgram("two-offices");
  const run = await Simulation.open(module, text);
  run.watch(["all.goodput"]);
  run.runUntil(5);
  run.setLink("wan", { rate: 1e6, delay: 0.05, loss: 0 });
  run.runUntil(10);
  run.read();
  run.runUntil(20);
  assert.ok(run.read()[0] < 1.1e6);
});

test("a class that gets another weight gets another part", async () => {
  const { text } = byTheProgram("two-offices");
  const run = await Simulation.open(module, text, { point: 1 });
  const [{ name, classes, weights }] = run.described.trunks;
  assert.equal(weights.length, classes.length);
  run.setWeight(name, classes[0], 5);
  assert.throws(() => run.setWeight(name, classes[0], 0), /weight is 0; allowed: 1 to 1000/);
  assert.throws(() => run.setWeight(name, "voices", 1), /is no class/);
});

test("what is wrong says what is allowed", async () => {
  await assert.rejects(Simulation.open(module, "id = 7"), /experiment\.toml:1:/);
  const { text } = byTheProgram("two-offices");
  await assert.rejects(Simulation.open(module, text, { point: 9 }), /point is 9; allowed: 0 to 1/);
  const run = await Simulation.open(module, text);
  assert.throws(() => run.watch(["lan.drops"]), /links: .*wan/);
  assert.throws(() => run.setLink("lan", { rate: 1e6 }), /is no link/);
  assert.throws(() => run.runUntil(-1), /time is -1; allowed/);
  run.runUntil(0.1);
  assert.throws(() => run.measure(), /not begun/);
});
