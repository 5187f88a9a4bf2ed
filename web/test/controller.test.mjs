// The page of a controller in a browser. `node --test`, with TRUNKLINE_CONTROLLER (its URL), TRUNKLINE_TOKEN (a viewer's) and BROWSER. Of its
// network: three sites, a line each, two trunks that are carried, and one that is refused.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { fitsPhones, isAccessible, isFirefox, open } from "./browser.mjs";

const { TRUNKLINE_CONTROLLER, TRUNKLINE_TOKEN } = process.env;
let browser, page;

before(async () => {
  browser = await open(TRUNKLINE_CONTROLLER, TRUNKLINE_TOKEN);
  page = browser.page;
  await page.waitForFunction(() => document.querySelectorAll("#tables table").length >= 4, { timeout: 20_000 });
});

after(() => browser?.close());

const rows = (title) => page.evaluate((title) => {
  const found = [...document.querySelectorAll("table")].find((each) => each.caption.textContent === title);
  return [...found.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
}, title);

test("it shows what is reserved, and why a trunk is refused", async () => {
  assert.match(await page.$eval("#summary", (element) => element.textContent), /^3 sites +revision 1$/);
  assert.match(await page.$eval("#activity", (element) => element.textContent), /2 trunks carried +1 refused/);
  assert.deepEqual((await rows("Sites")).map(([name, state]) => [name, state]), [["a", "not enrolled"], ["b", "not enrolled"], ["c", "not enrolled"]]);
  const trunks = await rows("Trunks");
  assert.deepEqual(trunks.map(([name, , guarantee]) => [name, guarantee]), [["ab: a to b", "20.0"], ["ac: a to c", "30.0"], ["bc: b to c", "90.0"]]);
  assert.match(trunks[2].join(" "), /refused .* are missing/);
  const links = await rows("Links");
  assert.equal(links.length, 3);
  assert.deepEqual(links[0].slice(2), ["90.0", "50.0", "56 %"]);
  assert.equal(await page.$$eval("#drawing line.link", (lines) => lines.length), 3);
  assert.ok((await rows("Changed lately (UTC)")).length >= 1);
});

test("names are searched for", async () => {
  await page.type("#filter", "ac");
  assert.deepEqual((await rows("Trunks")).map(([name]) => name), ["ac: a to c"]);
  await page.$eval("#filter", (element) => {
    element.value = "";
    element.dispatchEvent(new Event("input"));
  });
});

test("a narrow page does not scroll sideways", () => fitsPhones(page));

test("axe finds nothing serious", { skip: isFirefox }, () => isAccessible(page));

test("nothing was thrown or forbidden", () => assert.deepEqual(browser.errors, []));
