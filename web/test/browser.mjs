// What the tests of pages share: a browser with a page, and what was thrown in it. BROWSER is Chromium or Firefox.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import axe from "axe-core";
import puppeteer from "puppeteer-core";

const { BROWSER } = process.env;
export const isFirefox = BROWSER.includes("firefox");

/** Opens a page, with a password if it needs one: the page, a directory for files, what was thrown, and how it ends. */
export async function open(url, password) {
  const scratch = mkdtempSync(join(tmpdir(), "trunkline-page-"));
  const errors = [];
  const args = isFirefox ? [] : ["--no-sandbox", "--disable-gpu"];
  const browser = await puppeteer.launch({ executablePath: BROWSER, browser: isFirefox ? "firefox" : "chrome", args, userDataDir: join(scratch, "profile"), acceptInsecureCerts: true });
  const page = await browser.newPage();
  page.on("pageerror", (error) => errors.push(error.message));
  // What the content security policy forbids is an error on the console.
  page.on("console", (message) => { if (message.type() === "error") errors.push(message.text()); });
  await page.setViewport({ width: 1280, height: 900 });
  if (password) await page.authenticate({ username: "anybody", password });
  await page.goto(url);
  const close = async () => {
    await browser.close();
    rmSync(scratch, { recursive: true, force: true });
  };
  return { page, scratch, errors, close };
}

/** On a narrow screen nothing is beside it. */
export async function fitsPhones(page) {
  await page.setViewport({ width: 360, height: 740 });
  await sleep(500);
  const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok(inner <= outer, `${inner} of ${outer}`);
  await page.setViewport({ width: 1280, height: 900 });
}

/** Axe finds nothing serious, in the light and in the dark. */
export async function isAccessible(page) {
  for (const value of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value }]);
    await sleep(300);
    await page.evaluate(axe.source);
    const { violations } = await page.evaluate(() => window.axe.run());
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), [], value);
  }
}
