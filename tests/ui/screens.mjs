// screens.mjs - each screen, in both themes, wide and narrow
import { readFileSync } from "node:fs";
import { at, axeFile, cli, is, logIn, note, ok, sendMail, settled, test, url } from "./browser.mjs";

const axe = readFileSync(axeFile, "utf8");
const alice = "#/accounts/alice%40example.test";
const screens = {
    overview: "#/", "set up": "#/start", domains: "#/domains", "DNS records": "#/domains/example.test", aliases: "#/aliases", accounts: "#/accounts", account: alice,
    passwords: `${alice}/passwords`, "aliases of an account": `${alice}/aliases`, mailboxes: `${alice}/mailboxes`,
    "deleted mail": `${alice}/deleted`, contacts: "#/contacts", upstreams: "#/upstreams", upstream: "#/upstreams/corp", sites: "#/sites", site: "#/sites/www.example.test", scripts: "#/scripts",
    script: "#/scripts/senders", versions: "#/scripts/senders/versions", "test run": "#/scripts/senders/test",
    plugins: "#/plugins", plugin: "#/plugins/smtp", settings: "#/settings", sessions: "#/sessions", log: "#/log",
    audit: "#/audit", certificates: "#/certificates", operators: "#/operators", tenants: "#/tenants",
    "API keys": "#/api-keys", "no such screen": "#/nowhere",
};
const dialogs = {
    "add a domain": ["#/domains", "header button:has-text('Add a domain')"],
    "remove a domain": ["#/domains", "tbody button:has-text('Remove')"],
    "add a contact": ["#/contacts", "header button:has-text('Add a contact')"],
    "add an upstream": ["#/upstreams", "button:has-text('Add an upstream')"],
    "add a certificate": ["#/certificates", "header button:has-text('Add a certificate')"],
    "change a setting": ["#/settings", "tbody button:has-text('Change') >> nth=0"],
    "an audit entry": ["#/audit", "tbody button:has-text('Show') >> nth=0"],
    "stop a plugin": ["#/plugins", "[aria-label='Stop smtp']"],
};

async function violations(page) {
    if (!await page.evaluate(() => "axe" in window)) await page.evaluate(axe);
    const { violations: found } = await page.evaluate(() => axe.run({ resultTypes: ["violations"] }));
    return found.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)} ${nodes[0].failureSummary ?? ""}`);
}

await test(async (open) => {
    // What is shown, with a few strings that a stranger may have chosen.
    const markup = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">";
    await cli("user", "add", "mallory@example.test", "--name", markup);
    await cli("alias", "add", "postmaster@example.test", "alice@example.test");
    await cli("site", "add", "www.example.test");
    await cli("contact", "add", "example.test", markup, "--mail", "mallory@example.org");
    await cli("upstream", "add", "corp", "dc=corp,dc=test", "ldaps://a.corp.example ldaps://b.corp.example");
    await cli("route", "add", "www.example.test", "/old", "redirect", "/new");
    await sendMail("someone@example.org", "alice@example.test", `Subject: ${markup}\r\n\r\n${markup}\r\n`);

    const writer = await open();
    await logIn(writer);
    // A script in two versions, made as a person does.
    await at(writer, "#/scripts");
    await writer.click("text=New script");
    await writer.fill("dialog input[name=name]", "senders");
    await writer.click("dialog button:has-text('Write it')");
    await writer.waitForSelector(".check-line.is-ok");
    await writer.click("text=Save and activate");
    await writer.waitForSelector("text=Version 1 is in force");
    await writer.click(".cm-content");
    await writer.keyboard.press("Control+Home");
    await writer.keyboard.type("-- more\n");
    await writer.waitForTimeout(1200);
    await writer.waitForSelector(".check-line.is-ok");
    await writer.click("text=Save and activate");
    await writer.waitForSelector("text=Version 2 is in force");
    await writer.context().close();

    const look = async (colorScheme, width) => {
        const page = await open({ colorScheme, viewport: { width, height: 900 } });
        const where = `${colorScheme}, ${width}`;
        await page.goto(url);
        await page.waitForSelector("input[name=login]");
        const atLogin = await violations(page);
        is(atLogin.length, 0, `login, ${where}: axe finds nothing`);
        atLogin.forEach(note);
        await logIn(page);
        for (const [name, hash] of Object.entries(screens)) {
            await at(page, hash);
            if (name === "script") await page.waitForSelector(".cm-content");
            const found = await violations(page);
            is(found.length, 0, `${name}, ${where}: axe finds nothing`);
            found.forEach(note);
            const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
            ok(over <= 0, `${name}, ${where}: nothing sticks out`);
        }
        for (const [name, [hash, button]] of Object.entries(dialogs)) {
            await at(page, hash);
            await page.locator(button).first().click();
            await page.waitForSelector("dialog[open]");
            await settled(page);
            await page.waitForTimeout(250);
            const found = await violations(page);
            is(found.length, 0, `${name}, ${where}: axe finds nothing`);
            found.forEach(note);
            await page.keyboard.press("Escape");
            await page.waitForSelector("dialog[open]", { state: "detached" });
        }
        await at(page, "#/accounts");
        is(await page.locator("tr:has-text('mallory') td[data-title=Name]").innerText(), markup, `markup is text, ${where}`);
        await at(page, "#/audit");
        ok(await page.evaluate(() => document.title !== "broken" && !document.querySelector("tbody img, tbody script")), `and never runs, ${where}`);
        await page.context().close();
    };
    // Both themes at once: each waits for the server most of the time.
    for (const width of [1440, 360]) await Promise.all(["light", "dark"].map((colorScheme) => look(colorScheme, width)));

    // The theme that was chosen is kept.
    const page = await open({ colorScheme: "light" });
    await logIn(page);
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await background();
    await page.check(".side input[name=theme][value=dark]");
    ok(await background() !== light, "dark can be chosen");
    await page.reload();
    await page.waitForSelector(".shell");
    ok(await background() !== light, "and is kept");
});
