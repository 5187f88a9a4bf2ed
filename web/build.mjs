// Makes one file of the page, with all that it needs inside: it works from a disk and from any server.
// usage: node build.mjs MODULE.wasm OUT.html

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

import { PAPERS } from "./scenario.js";

const [wasm, out] = process.argv.slice(2);
if (!out) {
  console.error("usage: node build.mjs MODULE.wasm OUT.html");
  process.exit(2);
}
const here = dirname(fileURLToPath(import.meta.url));
const read = (name) => readFileSync(`${here}/${name}`, "utf8");
const entry = `
  import { start } from "./page.js";
  const packed = Uint8Array.from(atob(document.getElementById("module").textContent), (one) => one.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  start(new Response(stream).arrayBuffer(), JSON.parse(document.getElementById("experiments").textContent));
`;
const bundled = await build({
  stdin: { contents: entry, resolveDir: here }, bundle: true, format: "esm", minify: true, write: false, legalComments: "inline",
});
const experiments = {};
for (const { file } of Object.values(PAPERS)) experiments[file] = readFileSync(`${here}/../experiments/${file}`, "utf8");
const module = gzipSync(readFileSync(wasm), { level: 9 }).toString("base64");
// What ends an element must not stand in it.
const script = bundled.outputFiles[0].text.replaceAll("</script", "<\\/script");
const page = read("index.html")
  .replace("<!-- style -->", () => `<style>${read("node_modules/uplot/dist/uPlot.min.css")}${read("style.css")}</style>`)
  .replace("<!-- script -->", () => `<script type="text/plain" id="module">${module}</script>\n<script type="application/json" id="experiments">${JSON.stringify(experiments).replaceAll("<", "\\u003c")}</script>\n<script type="module">${script}</script>`);
mkdirSync(dirname(out) || ".", { recursive: true });
writeFileSync(out, page);
console.log(`${out}: ${(page.length / 1e6).toFixed(1)} MB, the simulator in it ${(module.length * 0.75 / 1e6).toFixed(1)} MB compressed`);
