// How fast the page is: from loading to the first paint, and frames a second of twenty flows at 10 Mbit/s, over 10 s. BROWSER is Chromium or
// Firefox.
// usage: BROWSER=/usr/bin/chromium node web/test/speed.mjs PAGE      (in target/page, where web/make puts its packages)

import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { open } from "./browser.mjs";

const address = `file://${resolve(process.argv[2])}`;
const { page, close } = await open(address);
await page.waitForSelector("html[data-ready=yes]", { timeout: 60_000 });
const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
await page.goto(`${address}#rate=10&flows=20`);
await page.reload();
await page.waitForSelector("html[data-ready=yes]", { timeout: 60_000 });
await sleep(2000);
const look = () => page.evaluate(() => [performance.now() / 1000, window.trunkline.frames, ...window.trunkline.panels().map(({ simulation }) => simulation.now)]);
const before = await look();
await sleep(10_000);
const [seconds, frames, ...times] = (await look()).map((value, place) => value - before[place]);
const speeds = times.map((time) => `${(time / seconds).toFixed(2)} of the time`).join(" and ");
console.log(`first paint after ${paint.toFixed(0)} ms; ${(frames / seconds).toFixed(1)} frames a second, at ${speeds}`);
await close();
