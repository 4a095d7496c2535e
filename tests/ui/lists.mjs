// lists.mjs - what lists do, on that of the accounts; then the same console for a tenant's admin
import { readFileSync } from "node:fs";
import { at, cli, is, like, logIn, ok, operator, said, settled, test } from "./browser.mjs";

await test(async (open) => {
    const page = await open();
    await logIn(page);
    await at(page, "#/accounts");
    const rows = () => page.locator("tbody tr").count();
    const first = () => page.locator("tbody tr td.main").first().innerText();

    // -- pages
    is(await rows(), 50, "a page has fifty rows");
    const top = await first();
    await page.click(".pager button:has-text('Next')");
    await page.waitForFunction(() => location.hash.includes("after="));
    await settled(page);
    is(await rows(), 13, "the next one has the rest");
    ok(await page.isDisabled(".pager button:has-text('Next')"), "and is the last");
    await page.reload();
    await page.waitForSelector("tbody tr");
    is(await rows(), 13, "the page is in the address");
    await page.click(".pager button:has-text('First page')");
    await settled(page);
    is(await first(), top, "and the first is reached from it");

    // -- search, filter, columns
    await page.fill("[data-search]", "person00");
    await page.waitForFunction(() => location.hash.includes("filter=person00"));
    await settled(page);
    is(await rows(), 9, "the server searches");
    await page.fill("[data-search]", "");
    await page.waitForFunction(() => !location.hash.includes("filter"));
    await page.click("summary:has-text('Columns')");
    await page.check(".menu-body label:has-text('Added') input");
    await page.uncheck(".menu-body label:has-text('Messages') input");
    await page.keyboard.press("Escape");
    await settled(page);
    const heads = await page.locator("thead th").allInnerTexts();
    ok(heads.includes("Added") && !heads.includes("Messages"), "columns are chosen");
    like(page.url(), /columns=/, "and kept in the address");

    // -- many at once
    await page.fill("[data-search]", "person05");
    await page.waitForFunction(() => location.hash.includes("filter=person05"));
    await settled(page);
    await page.check("thead input[type=checkbox]");
    await page.click(".bulk button:has-text('Suspend')");
    like(await page.innerText("dialog"), /10 accounts/, "the question says how many");
    await page.click("dialog button:has-text('Suspend')");
    await said(page, "10 accounts suspended");
    await at(page, "#/accounts?state=suspended");
    is(await rows(), 10, "the filter finds those");

    // -- CSV: all pages of what is searched, and nothing that a spreadsheet would run
    await at(page, "#/accounts");
    const [file] = await Promise.all([page.waitForEvent("download"), page.click("button:has-text('CSV')")]);
    const csv = readFileSync(await file.path(), "utf8").trim().split("\r\n");
    is(csv.length, 64, "the file has a head and every row of every page");
    like(csv[0], /^address,name,state/, "its head names the fields");
    like(csv.find((line) => line.startsWith("formula@")), /,'=1\+1,/, "a formula is only text");

    // -- nothing there
    await at(page, "#/aliases");
    like(await page.innerText(".empty"), /postmaster/, "an empty list says what to do");
    await at(page, "#/accounts?filter=nobody-at-all");
    await page.click(".empty button:has-text('Show all')");
    await settled(page);
    is(await rows(), 50, "a search without a result leads back");

    // -- a tenant's admin
    const tenant = await open();
    await logIn(tenant, { login: "pilot", password: operator.password });
    await settled(tenant);
    const places = await tenant.locator(".side .nav a").allInnerTexts();
    ok(places.includes("Domains") && !places.includes("Settings") && !places.includes("Plugins"), "a tenant's admin is offered only what is his");
    await at(tenant, "#/domains");
    is((await tenant.locator("tbody td.main").allInnerTexts()).join(), "harbour.example", "and sees only his domains");
    await at(tenant, "#/accounts?filter=alice");
    is(await tenant.locator("tbody tr").count(), 0, "and no account of others");
    await at(tenant, "#/settings");
    like(await tenant.innerText(".content"), /not for you/, "what is not his is not there");
    await at(tenant, "#/accounts");
    await tenant.click("text=Add an account");
    await tenant.fill("dialog input[name=address]", "new@harbour.example");
    await tenant.click("dialog button:has-text('Add')");
    await said(tenant, "is added");
    like(await cli("user", "list", "--filter", "new@"), /new@harbour\.example/, "but he may add an account of his own");
});
