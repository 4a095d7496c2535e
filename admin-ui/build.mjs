// build.mjs - makes the bundle that plugins/admin carries
//
//   node build.mjs [--out DIR] [--dev]
//
// DIR (default "bundle") gets index.html, assets/NAME-HASH.js and .css each with its .br and .gz, and
// admin-ui.gresource.xml, which lists them all under /posthouse/admin-ui/. Where nothing changed, the
// same input makes the same bytes. --dev leaves out minifying and compressing.
import { createHash } from "node:crypto";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const options = process.argv.slice(2);
const dev = options.includes("--dev");
const out = options.includes("--out") ? options[options.indexOf("--out") + 1] : join(here, "bundle");

rmSync(out, { recursive: true, force: true });
mkdirSync(join(out, "assets"), { recursive: true });

const result = await build({
    absWorkingDir: here,
    entryPoints: { app: "src/main.tsx", style: "src/styles/index.css", theme: "src/theme-first.ts" },
    outdir: join(out, "assets"),
    bundle: true,
    jsx: "automatic",
    jsxImportSource: "preact",
    splitting: true,
    format: "esm",
    target: ["chrome110", "firefox110", "safari16.4"],
    minify: !dev,
    sourcemap: dev ? "inline" : false,
    legalComments: "none",
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    assetNames: "[name]-[hash]",
    metafile: true,
    logLevel: "warning",
});

// What the first screen needs: the entries and all that they import at once.
const made = result.metafile.outputs;
const entryOf = {};
for (const [file, info] of Object.entries(made)) {
    if (info.entryPoint) entryOf[info.entryPoint] = file;
}
const first = new Set();
const follow = (file) => {
    if (first.has(file)) return;
    first.add(file);
    for (const used of made[file].imports) {
        if (used.kind === "import-statement") follow(used.path);
    }
};
const script = entryOf["src/main.tsx"];
follow(script);
follow(entryOf["src/styles/index.css"]);
follow(entryOf["src/theme-first.ts"]);
const preload = [...first].filter((file) => file.endsWith(".js") && file !== script && file !== entryOf["src/theme-first.ts"]);

// The icon is not imported by anything: named by its content, as the others are.
const picture = readFileSync(join(here, "src/icon.svg"));
const icon = `icon-${createHash("sha256").update(picture).digest("hex").slice(0, 8)}.svg`;
writeFileSync(join(out, "assets", icon), picture);

const page = readFileSync(join(here, "src/index.html"), "utf8")
    .replace("@APP@", basename(script))
    .replace("@STYLE@", basename(entryOf["src/styles/index.css"]))
    .replace("@THEME@", basename(entryOf["src/theme-first.ts"]))
    .replace("@ICON@", icon)
    .replace("@PRELOAD@", preload.map((file) =>
        `<link rel="modulepreload" href="__BASE__assets/${basename(file)}">`).join("\n    "));
writeFileSync(join(out, "index.html"), page);

// Each text asset also compressed; the plain one stays for those who take neither.
const sizes = {};
for (const name of readdirSync(join(out, "assets")).sort()) {
    const file = join(out, "assets", name);
    const plain = readFileSync(file);
    if (!dev) {
        writeFileSync(file + ".gz", gzipSync(plain, { level: 9 }));
        writeFileSync(file + ".br", brotliCompressSync(plain, {
            params: {
                [constants.BROTLI_PARAM_QUALITY]: 11,
                [constants.BROTLI_PARAM_SIZE_HINT]: plain.length,
            },
        }));
    }
    sizes[name] = {
        plain: plain.length,
        gzip: dev ? plain.length : statSync(file + ".gz").size,
        brotli: dev ? plain.length : statSync(file + ".br").size,
        first: [...first].some((path) => basename(path) === name),
    };
}
writeFileSync(join(out, "sizes.json"), JSON.stringify(sizes, null, 2) + "\n");

const files = ["index.html", ...readdirSync(join(out, "assets")).sort().map((name) => `assets/${name}`)];
writeFileSync(join(out, "admin-ui.gresource.xml"),
    `<?xml version="1.0" encoding="UTF-8"?>
<gresources>
  <gresource prefix="/posthouse/admin-ui">
${files.map((name) => `    <file>${name}</file>`).join("\n")}
  </gresource>
</gresources>
`);

const sum = (choose, part) => Object.values(sizes).filter(choose).reduce((all, size) => all + size[part], 0);
const kib = (bytes) => `${(bytes / 1024).toFixed(1)} KiB`;
console.log(`console: first screen ${kib(sum((size) => size.first, "brotli"))} brotli, ` +
    `${kib(sum((size) => size.first, "gzip"))} gzip; all ${kib(sum(() => true, "brotli"))} brotli, ` +
    `${kib(sum(() => true, "gzip"))} gzip`);
