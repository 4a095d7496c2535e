// wizard.mjs - the first run: each step is really done, and what is shown at the end is true
import { at, cli, expectRefusals, fetchSite, is, like, logIn, ok, ports, sendMail, settled, test } from "./browser.mjs";

await test(async (open) => {
    const page = await open();
    await logIn(page);
    await settled(page);
    await page.click("text=Set up the first domain");
    await page.waitForSelector("h1:has-text('Set up')");

    expectRefusals(400);
    await page.fill("input[name=name]", "no domain");
    await page.keyboard.press("Enter");
    await page.waitForSelector("input[name=name][aria-invalid=true]");
    like(await page.textContent(".wrong"), /domain/, "a name that is none is refused at its field");
    ok(await page.evaluate(() => document.activeElement?.getAttribute("name") === "name"), "which has the focus");

    await page.fill("input[name=name]", "first.example");
    await page.keyboard.press("Enter");
    await page.waitForSelector("text=The first account");
    like(await cli("domain", "list"), /first\.example/, "the domain is there");

    await page.fill("input[name=address]", "ann");
    await page.fill("input[name=name]", "Ann Example");
    await page.fill("input[name=password]", "quiet-river-stone-4");
    await page.fill("input[name=quota_bytes]", "2 GiB");
    await page.click("text=Add the account");
    await page.waitForSelector("text=A web site");
    like(await cli("user", "list"), /ann@first\.example/, "the account is there");
    like(await cli("alias", "list"), /postmaster@first\.example/, "and reads mail to the postmaster");

    is(await page.inputValue("input[name=name]"), "www.first.example", "a name for the site is proposed");
    await page.click("text=Add the site");
    await page.waitForSelector("text=Tell the DNS");
    like(await cli("site", "list"), /www\.first\.example/, "the site is there");

    await settled(page);
    const shown = await page.innerText(".content");
    like(shown, /first\.example\.\s+3600\s+IN\s+MX/, "the DNS line is shown");
    like(shown, new RegExp(`port ${ports.imaps}\\b`), "and the port where mail is read");
    const address = await page.getAttribute("a:has-text('Open the site')", "href");
    is(new URL(address).port, String(ports.https), "the site's address is where it is served");
    const answer = await fetchSite("www.first.example", "/");
    ok([200, 403, 404].includes(answer.status), `the site answers (${answer.status})`);

    const replies = await sendMail("someone@example.org", "postmaster@first.example");
    like(replies.at(-1), /^250/, "mail to the new domain is taken in");
    await at(page, "#/accounts");
    await page.waitForSelector("text=ann@first.example");
    is(await page.locator("tr:has-text('ann@first.example') td[data-title=Messages]").innerText(), "1", "and counted");

    await at(page, "#/");
    is(await page.locator("text=Nothing is set up yet").count(), 0, "the overview no longer asks to set up");
});
