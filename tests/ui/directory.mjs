// directory.mjs - the address book, and directories behind ours
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { at, cli, expectRefusals, is, like, logIn, ok, operator, ports, said, settled, test } from "./browser.mjs";

const run = promisify(execFile);
const slapd = process.env.PH_UI_LDAP_URL;
const search = (...filter) =>
    run("ldapsearch", ["-LLL", "-x", "-H", `ldap://127.0.0.1:${ports.ldap}`, "-b", "dc=corp,dc=test", ...filter]).then(({ stdout }) => stdout);

await test(async (open) => {
    const page = await open();
    const other = await open();
    const row = (text) => page.locator("tbody tr", { hasText: text });
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute("name") ?? document.activeElement?.getAttribute("aria-label"));
    await logIn(page);
    await logIn(other);
    expectRefusals(400, 409);

    // -- contacts, without a mouse
    await at(page, "#/contacts");
    is(await page.locator("tbody tr").count(), 50, "a page of contacts");
    await page.click("button:has-text('Next')");
    await page.waitForFunction(() => location.hash.includes("after="));
    await settled(page);
    is(await page.locator("tbody tr").count(), 6, "and the next one");
    await page.selectOption(".filter select", "harbour.example");
    await page.waitForFunction(() => location.hash.includes("domain=harbour.example"));
    await settled(page);
    is(await page.locator("tbody tr").count(), 1, "those of one domain");

    await at(page, "#/contacts");
    await page.focus("button:has-text('Add a contact')");
    await page.keyboard.press("Enter");
    await page.waitForSelector("dialog[open]");
    is(await focused(), "name", "the dialog begins at the name");
    await page.keyboard.type("Zoe Outside");
    await page.fill("dialog [name=mail]", "zoe@example.org, nonsense");
    await page.fill("dialog [name=domain]", "example.test");
    await page.keyboard.press("Enter");
    await page.waitForSelector("dialog .wrong");
    is(await focused(), "mail", "a wrong address is said at its field");
    await page.keyboard.press("Control+A");
    await page.keyboard.type("zoe@example.org, press@example.org");
    await page.keyboard.press("Enter");
    await said(page, "Zoe Outside is added");
    like(await cli("contact", "list", "--filter", "zoe"), /zoe@example\.org,press@example\.org/, "a contact is added");

    for (const one of [page, other]) {
        await at(one, "#/contacts?filter=zoe");
        await one.click("[aria-label='Change Zoe Outside']");
    }
    await other.fill("dialog [name=organization]", "Example Press");
    await other.click("dialog button:has-text('Save')");
    await said(other, "Saved");
    await page.fill("dialog [name=telephone]", "+1 555 0100");
    await page.click("dialog button:has-text('Save')");
    const both = page.locator("dialog", { hasText: "was changed meanwhile" }).last();
    like(await both.innerText(), /Example Press/, "of two changes the second is shown both");
    await both.getByText("Take the saved version").click();
    is(await page.inputValue("dialog [name=organization]"), "Example Press", "and may begin with the first");
    await page.fill("dialog [name=telephone]", "+1 555 0100");
    await page.click("dialog button:has-text('Save')");
    await said(page, "Saved");
    await settled(page);
    like(await row("Zoe Outside").innerText(), /Example Press[\s\S]*\+1 555 0100/, "both changes are there");
    await page.click("[aria-label='Remove Zoe Outside']");
    await page.click("dialog button:has-text('Remove')");
    await said(page, "Zoe Outside is removed");
    like(await cli("contact", "list", "--filter", "zoe"), /^(?![\s\S]*zoe@)/, "and it is gone");

    // -- upstreams
    await at(page, "#/upstreams");
    await page.waitForSelector("text=No upstream");
    await page.locator("button:has-text('Add an upstream')").first().click();
    await page.fill("dialog [name=name]", "corp");
    await page.fill("dialog [name=suffix]", "dc=corp,dc=test");
    await page.fill("dialog [name=urls]", "ldap://directory.example.test");
    await page.waitForSelector("dialog >> text=Passwords would be readable");
    await page.fill("dialog [name=urls]", `${slapd}\nldap://127.0.0.1:9`);
    ok(await page.isHidden("dialog >> text=Passwords would be readable"), "passwords that would be readable are warned of, but not for this host");
    await page.selectOption("dialog [name=identity]", "service");
    await page.fill("dialog [name=bind_dn]", "cn=manager,dc=corp,dc=test");
    await page.fill("dialog [name=password]", "manager");
    await page.check("dialog [name=anonymous]");
    ok(await page.isHidden("dialog [name=connections]"), "what few need is folded");
    await page.click("dialog summary");
    await page.fill("dialog [name=cache_s]", "60");
    await page.fill("dialog [name=connections]", "1000");
    await page.click("dialog summary");
    await page.click("dialog button[type=submit]");
    await page.waitForSelector("dialog .wrong");
    is(await focused(), "connections", "and unfolded where something in it is wrong");
    await page.fill("dialog [name=connections]", "2");
    await page.click("dialog button[type=submit]");
    await said(page, "corp is added");
    await page.waitForSelector("h1:has-text('corp')");
    await settled(page);

    like(await search("(uid=jane)"), /cn: Jane Example/, "it is asked");
    const server = row(slapd);
    await server.locator(".badge:has-text('up')").waitFor();
    await page.waitForFunction((url) => [...document.querySelectorAll("tbody tr")].some((one) =>
        one.innerText.includes(url) && one.querySelector("[data-title=Answered]").innerText !== "0"), slapd);
    ok(true, "and its health is seen without asking for it");
    is(await page.inputValue("[name=password]"), "", "the password is not shown");
    is(await page.inputValue("[name=urls]"), `${slapd}\nldap://127.0.0.1:9`, "the servers are, one a line");

    await search("(uid=jane)");
    await at(page, "#/upstreams");
    await page.locator(".facts >> text=Answers kept").locator("xpath=..").locator("dd:not(:text-is('0'))").waitFor();
    await page.click("button:has-text('Flush caches')");
    await page.click("dialog button:has-text('Flush')");
    await said(page, "The caches are empty");
    await page.locator(".facts >> text=Answers kept").locator("xpath=..").locator("dd:text-is('0')").waitFor();
    ok(true, "what is cached is seen, and can be forgotten");

    // A server that is away is told from one that nobody asks.
    for (const one of [page, other]) await at(one, "#/upstreams/corp");
    await page.fill("[name=urls]", "ldap://127.0.0.1:9");
    await page.click("button:has-text('Save')");
    await said(page, "Saved and in force");
    await settled(page);
    await search("(uid=joe)").catch(() => undefined);
    await page.locator("td[data-title=State] .badge:has-text('down')").waitFor();
    like(await row("ldap://127.0.0.1:9").locator("[data-title='Last failure']").innerText(), /\w/, "why a server is down is said");
    await at(page, "#/upstreams");
    await page.locator("td[data-title=Servers] .badge:text-is('down')").waitFor();
    ok(true, "and seen in the list");

    // Two people; and what looks like two people but is not.
    await other.fill("[name=bind_dn]", "cn=other,dc=corp,dc=test");
    await other.click("button:has-text('Save')");
    await other.waitForSelector("dialog:has-text('was changed meanwhile')");
    const texts = await other.innerText("dialog");
    like(texts, /ldap:\/\/127\.0\.0\.1:9/, "of two changes of an upstream the second is shown both");
    ok(!texts.includes("password"), "but no password");
    await other.click("text=Save mine over it");
    await said(other, "Saved and in force");
    await settled(other);
    like(await cli("upstream", "show", "corp"), /cn=other,dc=corp,dc=test/, "and may save his over it");
    await cli("upstream", "add", "old", "dc=old,dc=test", slapd);
    await other.fill("[name=suffix]", "dc=old,dc=test");
    await other.click("button:has-text('Save')");
    await other.waitForSelector(".wrong:has-text('answers for')");
    is(await other.locator("dialog").count(), 0, "a suffix that is taken is said at its field");

    // -- without the plugin
    await cli("plugin", "stop", "ldap");
    await at(page, "#/sessions");
    await at(page, "#/upstreams");
    await page.waitForSelector("h2:has-text('The directory is not served')");
    await page.click("button:has-text('Start it')");
    await said(page, "The directory is served");
    await settled(page);
    await page.waitForSelector("td:has-text('dc=old,dc=test')");
    ok(true, "with the plugin stopped the screen says so, and starts it");

    await at(page, "#/upstreams/old");
    await page.click("button:has-text('Remove')");
    await page.fill("dialog input", "old");
    await page.click("dialog button:has-text('Remove')");
    await said(page, "old is removed");
    like(await cli("upstream", "list"), /^(?![\s\S]*dc=old)/, "an upstream is removed");

    // -- a tenant's admin has contacts, and no upstreams
    const tenant = await open();
    await logIn(tenant, { login: "pilot", password: operator.password });
    await at(tenant, "#/contacts");
    is(await tenant.locator("tbody tr").count(), 1, "a tenant's admin sees the tenant's contacts");
    ok(await tenant.locator(".side a:has-text('Upstreams')").count() === 0, "and no way to upstreams");
    await at(tenant, "#/upstreams");
    await tenant.waitForSelector("text=There is no such page");
    ok(true, "nor are they there by their address");
});
