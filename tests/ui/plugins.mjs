// plugins.mjs - start, replace under load, stop; settings of a plugin
import { at, cli, expectRefusals, fetchSite, is, like, logIn, ok, said, settled, test } from "./browser.mjs";

const host = "www.example.test";

await test(async (open) => {
    const page = await open();
    await logIn(page);
    await cli("site", "add", host);

    // Somebody reads pages all the time.
    let reading = true;
    let answered = 0;
    const failures = [];
    const readers = [1, 2, 3].map(async () => {
        while (reading) {
            try {
                await fetchSite(host, "/");
                answered++;
            } catch (error) {
                failures.push(error.message);
            }
        }
    });

    await at(page, "#/plugins");
    const tile = (name) => page.locator("li.card", { has: page.locator(`h2:has-text("${name}")`) });
    is(await tile("http").first().locator(".badge").innerText(), "serving", "the web plugin serves");
    for (let i = 0; i < 3; i++) {
        await page.locator("[aria-label='Replace http']").first().click();
        await page.click("dialog button:has-text('Replace it')");
        await said(page, "http is replaced");
        await settled(page);
        await page.locator(".toast button").first().click();
    }
    const before = answered;
    await page.waitForTimeout(500);
    reading = false;
    await Promise.all(readers);
    ok(answered > before && before > 0, `pages were read all the while (${answered})`);
    is(failures.length, 0, `and none failed${failures[0] ? `: ${failures[0]}` : ""}`);

    // -- one that is not running
    await page.click("text=Start a plugin");
    expectRefusals(400, 404, 409, 500, 503);
    await page.fill("dialog input[name=name]", "no-such-plugin");
    await page.click("dialog button:has-text('Start')");
    await page.waitForSelector("dialog .wrong, dialog .notice.is-bad");
    ok(true, "a plugin that is not there is refused with a reason");
    await page.fill("dialog input[name=name]", "example");
    await page.click("dialog button:has-text('Start')");
    await said(page, "example is started");
    await settled(page);
    like(await cli("plugin", "list"), /^example +serving/m, "the example is started");
    await page.click("[aria-label='Stop example']");
    await page.click("dialog button:has-text('Stop it')");
    await said(page, "example is stopped");

    // -- the console replaces itself, and goes on
    await page.locator("[aria-label='Replace admin']").first().click();
    await page.click("dialog button:has-text('Replace it')");
    await page.waitForSelector("dialog", { state: "detached" });
    await at(page, "#/domains");
    await page.waitForSelector("td:has-text('example.test')");
    ok(true, "the console goes on after it replaced itself");

    // -- settings
    await at(page, "#/plugins/smtp");
    await page.waitForSelector("tbody tr");
    const keys = await page.locator("tbody td.main code").allInnerTexts();
    ok(keys.length > 0 && keys.every((key) => key.startsWith("smtp.")), "a plugin's page has its settings only");
    await at(page, "#/settings");
    await page.fill("[data-search]", "idle");
    await page.waitForFunction(() => location.hash.includes("filter=idle"));
    await settled(page);
    const key = await page.locator("tbody td.main code").first().innerText();
    await page.locator("tbody button:has-text('Change')").first().click();
    await settled(page);
    const usual = await page.inputValue("dialog input[name=value]");
    await page.fill("dialog input[name=value]", "no number");
    await page.click("dialog button:has-text('Save')");
    await page.waitForSelector("dialog input[name=value][aria-invalid=true], dialog .notice.is-bad");
    ok(true, "a value that does not fit is refused");
    await page.fill("dialog input[name=value]", "1234");
    await page.click("dialog button:has-text('Save')");
    await said(page, "is changed and in force");
    like(await cli("config", "get", key), /1234/, `${key} is set`);
    await settled(page);
    await page.locator("tbody button:has-text('Change')").first().click();
    await page.waitForSelector("dialog section[aria-label=History] li");
    like(await page.innerText("dialog section[aria-label=History]"), /by admin/, "its history says who");
    await page.keyboard.press("Escape");
    await page.click("text=Apply a file");
    await page.fill("dialog textarea[name=document]", "# nothing is set\n");
    await page.click("text=Show what would change");
    await page.waitForSelector(`dialog tr:has-text('${key}')`);
    ok(true, "a file of settings shows first what it would change");
    await page.keyboard.press("Escape");
    await page.locator("tbody button:has-text('Change')").first().click();
    await settled(page);
    await page.click("dialog button:has-text('Back to the default')");
    await said(page, "has its default again");
    ok(!(await cli("config", "get", key)).includes("1234"), `and has its default (${usual}) again`);
});
