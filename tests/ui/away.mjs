// away.mjs - the console while the database is away
import { readFileSync, renameSync } from "node:fs";
import { at, cli, expectRefusals, is, like, logIn, ok, settled, test, url } from "./browser.mjs";

const data = `${process.env.PH_UI_STATE}/postgres/data`;

// The managed PostgreSQL is killed, and kept from starting again by moving its data.
function takeAway() {
    const process_ = Number(readFileSync(`${data}/postmaster.pid`, "utf8").split("\n")[0]);
    renameSync(data, `${data}.away`);
    process.kill(process_, "SIGKILL");
}

await test(async (open) => {
    const page = await open();
    await logIn(page);
    await at(page, "#/accounts/alice%40example.test");
    await page.fill("input[name=name]", "Typed before");
    expectRefusals(503);

    takeAway();
    await page.click("button:has-text('Save')");
    await page.waitForSelector(".banner");
    like(await page.innerText(".banner"), /database is away/, "a banner says that the database is away");
    is(await page.inputValue("input[name=name]"), "Typed before", "what was typed is kept");
    like(await page.innerText("h1"), /alice/, "and what was shown");
    await at(page, "#/");
    await page.waitForSelector(".badge:has-text('database away')");
    ok(true, "the overview still shows the state");
    await at(page, "#/accounts/alice%40example.test");

    // Nobody can be asked for a password now; a link lets an operator in.
    const link = /#\/link\/(\S+)/.exec(await cli("console-link"))[0];
    const other = await open();
    await other.goto(`${url}${link}`);
    await other.waitForSelector(".shell");
    ok(true, "a link lets an operator in without the database");
    ok(!other.url().includes("link"), "and does not stay in the address");
    const again = await open();
    expectRefusals(503, 401, 400, 403, 404);
    await again.goto(`${url}${link}`);
    await again.waitForSelector(".notice.is-bad");
    ok(true, "it works once");

    renameSync(`${data}.away`, data);
    await page.waitForSelector(".banner", { state: "detached", timeout: 60000 });
    ok(true, "the banner goes when the database is back");
    await settled(page);
    await page.waitForSelector("input[name=name]");
    await page.fill("input[name=name]", "Typed after");
    await page.click("button:has-text('Save')");
    await page.waitForFunction(() => document.querySelector(".toast")?.textContent.includes("Saved"));
    like(await cli("user", "show", "alice@example.test"), /Typed after/, "and all goes on");
});
