// site.mjs - a site, a script that answers a page of it, versions of it, and back
import { at, cli, expectRefusals, fetchSite, is, like, logIn, ok, paste, said, settled, test } from "./browser.mjs";

const host = "www.example.test";

// Puts a text in place of that in the editor.
async function write(page, text) {
    await page.click(".cm-content");
    await page.keyboard.press("Control+A");
    await paste(page, text);
}

const pageOf = (words) => `return {
["http.content"] = function(req, res)
res:header("Content-Type", "text/plain")
res:write("${words}")
end,
}
`;

await test(async (open) => {
    const page = await open();
    await logIn(page);

    await at(page, "#/sites");
    await page.click("header >> text=Add a site");
    await page.fill("dialog input[name=name]", host);
    await page.click("dialog button:has-text('Add')");
    await page.waitForSelector(`h1:has-text('${host}')`);
    await settled(page);
    like(await cli("site", "list"), /www\.example\.test/, "the site is made");

    // -- the script
    await at(page, "#/scripts");
    await page.click("text=New script");
    await page.fill("dialog input[name=name]", "hello");
    await page.selectOption("dialog select[name=example]", "http.content");
    await page.click("dialog button:has-text('Write it')");
    await page.waitForSelector(".cm-content");
    await page.waitForSelector(".check-line.is-ok");
    like(await page.innerText(".check-line"), /http\.content/, "the example is good, and the server says which hook it takes");

    await write(page, "return { this is no Lua }");
    await page.waitForSelector(".check-line.is-bad");
    like(await page.innerText(".check-line"), /Line 1/, "an error is shown with its line while one types");
    await page.waitForSelector(".cm-lint-marker-error");
    ok(await page.isDisabled("text=Save and activate"), "and cannot be saved");

    await write(page, pageOf("first words"));
    await page.waitForSelector(".check-line.is-ok");
    await page.fill("input[name=note]", "the first");
    await page.click("text=Save and activate");
    await said(page, "Version 1 is in force");

    await at(page, `#/sites/${host}`);
    await page.click("text=Add a route");
    await page.fill("dialog input[name=prefix]", "/hello");
    await page.fill("dialog input[name=handler]", "lua");
    await page.fill("dialog input[name=target]", "hello");
    await page.click("dialog button:has-text('Save')");
    await said(page, "The route is saved");
    await page.waitForSelector("td:has-text('/hello')");
    const until = async (words) => {
        let answer;
        for (let i = 0; i < 50; i++) {
            answer = await fetchSite(host, "/hello");
            if (answer.text === words) break;
            await page.waitForTimeout(100);
        }
        return answer.text;
    };
    is(await until("first words"), "first words", "the page is served");

    // -- a second version, and back
    await at(page, "#/scripts/hello");
    await page.waitForSelector(".cm-content");
    await write(page, pageOf("other words"));
    await page.waitForSelector("text=This text is not saved yet");
    await at(page, "#/scripts");
    await at(page, "#/scripts/hello");
    await page.waitForSelector(".cm-content:has-text('other words')");
    ok(true, "a text that is not saved outlives a look at another screen");
    await page.fill("input[name=note]", "other words");
    await page.waitForSelector(".check-line.is-ok");
    await page.click("text=Save and activate");
    await said(page, "Version 2 is in force");
    is(await until("other words"), "other words", "the second version is served");

    await at(page, "#/scripts/hello/versions");
    await page.waitForSelector(".diff");
    like(await page.innerText(".diff"), /first words[\s\S]*other words/, "the two versions are compared");
    await page.click("header button:has-text('Roll back')");
    await page.click("dialog button:has-text('Roll back')");
    await said(page, "is rolled back");
    is(await until("first words"), "first words", "the first version is served again");
    await settled(page);
    await page.waitForSelector("tr:has-text('Version 1'):has-text('in force')");
    ok(true, "and is said to be in force");

    // -- what a removal says
    expectRefusals(404);
    await at(page, `#/sites/${host}`);
    await page.click("header button:has-text('Remove')");
    ok(await page.isDisabled("dialog button:has-text('Remove')"), "a site is removed only when its name is typed");
    await page.fill("dialog form input", host);
    await page.click("dialog button:has-text('Remove')");
    await said(page, "is removed");
    await page.waitForTimeout(1500);
    const gone = await fetchSite(host, "/hello").catch(() => ({ status: 421 }));
    ok([404, 421].includes(gone.status), `the site is gone (${gone.status})`);
});
