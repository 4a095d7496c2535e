// records.mjs - the DNS records of a domain
import { at, is, like, logIn, ok, said, settled, test } from "./browser.mjs";

await test(async (open) => {
    const page = await open();
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    const copied = () => page.evaluate(() => navigator.clipboard.readText());
    const row = (type, name) => page.locator("tbody tr", { has: page.locator(`.record-name:has(.badge:text-is('${type}')):has(code:text-is('${name}'))`) });
    const state = (type, name) => row(type, name).locator("[data-title=State]").innerText();
    await logIn(page);
    await at(page, "#/domains");
    await page.click("[aria-label='DNS records of example.test']");
    await page.waitForSelector("h1:has-text('example.test')");
    await page.waitForSelector("table.records");
    is(await state("MX", "example.test"), "good", "a record that is right");
    is(await state("PTR", "25.2.0.192.in-addr.arpa"), "missing", "one that is missing");
    is(await state("SRV", "_imaps._tcp.example.test"), "wrong", "one that is wrong");
    is(await state("SRV", "_submissions._tcp.example.test"), "optional", "one that many do without");
    is(await row("TXT", "example.test").locator(".found li").count(), 2, "what was found, one a line");
    like(await row("SRV", "_imaps._tcp.example.test").innerText(), /imap\.example\.org/, "and what is wrong");
    ok(!await row("MX", "example.test").locator(".paste").count(), "where all is good there is nothing to paste");
    await page.click("[aria-label='Copy the line for TXT _dmarc.example.test']");
    await said(page, "Copied");
    is(await copied(), '_dmarc.example.test. IN TXT "v=DMARC1; p=none; rua=mailto:postmaster@example.test"', "a line is copied as it is pasted");

    // Nobody answers.
    process.kill(Number(process.env.PH_UI_DNS_PID), "SIGTERM");
    await page.click("button:has-text('Ask again')");
    await page.waitForSelector(".notice:has-text('could not be asked')", { timeout: 60000 });
    await settled(page);
    is(await state("MX", "example.test"), "could not ask", "could not ask is not missing");
    is(await page.locator(".badge.is-bad").count(), 0, "and nothing is called wrong by it");
    like(await page.innerText(".notice"), /does not mean that they are missing/, "which is said");

    // A domain that is added leads there.
    await at(page, "#/domains");
    await page.locator("header button:has-text('Add a domain')").click();
    await page.fill("dialog [name=name]", "second.test");
    await page.click("dialog button[type=submit]");
    await said(page, "second.test is added");
    await page.waitForSelector("h1:has-text('second.test')");
    ok(true, "after a domain was added its records are shown");
});
