// conflict.mjs - two people at one thing, and a session that ends under the hands
import { at, cli, expectRefusals, is, like, logIn, ok, paste, said, settled, test } from "./browser.mjs";

const account = "#/accounts/alice%40example.test";

await test(async (open) => {
    const one = await open();
    const two = await open();
    await logIn(one);
    await logIn(two);
    expectRefusals(409, 401);

    await at(one, account);
    await at(two, account);
    await one.fill("input[name=name]", "Alice the First");
    await one.click("button:has-text('Save')");
    await said(one, "Saved");
    await two.fill("input[name=name]", "Alice the Second");
    await two.click("button:has-text('Save')");
    await two.waitForSelector("dialog");
    const both = await two.innerText("dialog");
    like(both, /Alice the First/, "the second is shown what was saved");
    like(both, /Alice the Second/, "and what is his");
    await two.click("text=Save mine over it");
    await said(two, "Saved");
    like(await cli("user", "show", "alice@example.test"), /Alice the Second/, "he may save his over it");

    await one.fill("input[name=name]", "Alice the Third");
    await one.click("button:has-text('Save')");
    await one.waitForSelector("dialog");
    await one.click("text=Take the saved version");
    await settled(one);
    is(await one.inputValue("input[name=name]"), "Alice the Second", "or take the saved one");

    // -- settings
    const name = "http.timeout.idle_s";
    for (const page of [one, two]) {
        await at(page, `#/settings?filter=${name}`);
        await page.click(`[aria-label='Change ${name}']`);
        await page.waitForSelector("dialog [name=value]");
        await settled(page);
    }
    const usual = await one.inputValue("dialog [name=value]");
    await one.fill("dialog input[name=value]", String(Number(usual) + 1));
    await one.click("dialog button:has-text('Save')");
    await said(one, "is changed and in force");
    await two.fill("dialog input[name=value]", String(Number(usual) + 2));
    await two.click("dialog button:has-text('Save')");
    await two.waitForSelector("dialog:has-text('was changed meanwhile')");
    like(await two.innerText("dialog:has-text('was changed meanwhile')"), new RegExp(`\\b${Number(usual) + 1}\\b`),
        "with a setting too the second is shown both");
    await two.click("text=Save mine over it");
    await said(two, "is changed and in force");
    like(await cli("config", "get", name), new RegExp(`\\b${Number(usual) + 2}\\b`), "and his is saved over it");

    // -- a script
    const write = async (page, words) => {
        await page.click(".cm-content");
        await page.keyboard.press("Control+A");
        await paste(page, `-- ${words}\nreturn {}\n`);
        await page.waitForSelector(".check-line.is-ok");
        await page.click("text=Save and activate");
    };
    await at(one, "#/scripts");
    await one.click("text=New script");
    await one.fill("dialog input[name=name]", "shared");
    await one.click("dialog button:has-text('Write it')");
    await one.waitForSelector(".cm-content");
    await write(one, "the first text");
    await said(one, "Version 1 is in force");
    for (const page of [one, two]) {
        await page.keyboard.press("Escape");
        await at(page, "#/scripts");
        await at(page, "#/scripts/shared");
        await page.waitForSelector(".cm-content:has-text('the first text')");
    }
    await write(one, "text of the one");
    await said(one, "Version 2 is in force");
    await write(two, "text of the other");
    await two.waitForSelector("dialog:has-text('was changed meanwhile')");
    like(await two.innerText("dialog .diff"), /text of the one[\s\S]*text of the other/, "of a script both texts are shown, line by line");
    await two.click("text=Save mine after it");
    await said(two, "Version 3 is in force");
    like(await cli("lua", "show", "shared"), /text of the other/, "and the second is saved after the first");

    // -- the session is over
    await at(two, account);
    await two.fill("input[name=name]", "Typed for a long time");
    await two.context().clearCookies();
    await two.click("button:has-text('Save')");
    await two.waitForSelector("dialog:has-text('Your session is over')");
    ok(true, "the page says that the session is over");
    ok(await two.evaluate(() => document.activeElement?.getAttribute("name") === "password"), "and waits for the password");
    await two.keyboard.press("Escape");
    ok(await two.isVisible("dialog:has-text('Your session is over')"), "it cannot be dismissed");
    await two.fill("dialog input[name=password]", process.env.PH_UI_PASSWORD);
    await two.keyboard.press("Enter");
    await said(two, "Saved");
    like(await cli("user", "show", "alice@example.test"), /Typed for a long time/, "after the login it is saved, nothing is lost");
});
