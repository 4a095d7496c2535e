// nodes.mjs - the nodes on the overview
import { readFileSync } from "node:fs";
import net from "node:net";
import { at, axeFile, is, like, logIn, note, ok, said, test } from "./browser.mjs";

// Whether the second node greets who comes by IMAP. Its ports may be others after it was drained.
const greets = () => new Promise((resolve) => {
    const { imap } = JSON.parse(readFileSync(process.env.PH_UI_SECOND_PORTS, "utf8"));
    if (!imap) return resolve(false);
    const socket = net.connect(imap, "127.0.0.1");
    const end = (answer) => {
        resolve(answer);
        socket.destroy();
    };
    socket.setTimeout(3000, () => end(false));
    socket.once("data", (data) => end(data.toString().startsWith("* OK")));
    socket.once("error", () => end(false));
    socket.once("end", () => end(false));
});

// Whether that is so, or soon is.
async function soon(wanted) {
    for (let i = 0; i < 40; i++) {
        if (await greets() === wanted) return true;
        await new Promise((resolve) => setTimeout(resolve, 250));
    }
    return false;
}

await test(async (open) => {
    const page = await open();
    await logIn(page);
    await at(page, "#/");
    const row = page.locator("table[aria-label=Nodes] tbody tr", { hasText: "two" });
    await row.waitFor();
    like(await page.innerText("table[aria-label=Nodes]"), /one \(this one\)/, "which node answers is said");
    is(await row.locator(".badge").innerText(), "serving", "the other one is seen");
    ok(await greets(), "and takes connections");

    await page.click("[aria-label='Drain two']");
    like(await page.innerText("dialog"), /takes no new connections/, "what will happen is said before");
    await page.click("dialog button[type=submit]");
    await said(page, "two takes no new connections");
    await row.locator(".badge:text-is('drained')").waitFor({ timeout: 30000 });
    ok(await soon(false), "a drained node takes no connections");
    for (const width of [1280, 360]) {
        await page.setViewportSize({ width, height: 900 });
        await page.evaluate(readFileSync(axeFile, "utf8"));
        const found = await page.evaluate(() => axe.run("main", { resultTypes: ["violations"] }));
        is(found.violations.length, 0, `axe finds nothing, ${width}`);
        found.violations.forEach(({ id, nodes }) => note(`${id}: ${nodes[0].html}`));
        ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `nothing sticks out, ${width}`);
    }
    await page.click("[aria-label='Resume two']");
    await page.click("dialog button[type=submit]");
    await said(page, "two serves again");
    await row.locator(".badge:text-is('serving')").waitFor({ timeout: 30000 });
    ok(await soon(true), "and one that is resumed does again");
});
