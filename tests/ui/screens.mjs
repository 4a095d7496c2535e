// screens.mjs - each screen, in both themes, wide and narrow
import { readFileSync } from "node:fs";
import { at, axeFile, cli, is, logIn, note, ok, sendMail, settled, test, url } from "./browser.mjs";

const axe = readFileSync(axeFile, "utf8");
const alice = "#/accounts/alice%40example.test";
const screens = {
    overview: "#/", "set up": "#/start", domains: "#/domains", aliases: "#/aliases", accounts: "#/accounts", account: alice,
    passwords: `${alice}/passwords`, "aliases of an account": `${alice}/aliases`, mailboxes: `${alice}/mailboxes`,
    "deleted mail": `${alice}/deleted`, sites: "#/sites", site: "#/sites/www.example.test", scripts: "#/scripts",
    script: "#/scripts/senders", versions: "#/scripts/senders/versions", "test run": "#/scripts/senders/test",
    plugins: "#/plugins", plugin: "#/plugins/smtp", settings: "#/settings", sessions: "#/sessions", log: "#/log",
    audit: "#/audit", certificates: "#/certificates", operators: "#/operators", tenants: "#/tenants",
    "API keys": "#/api-keys", "no such screen": "#/nowhere",
};
const dialogs = {
    "add a domain": ["#/domains", "header button:has-text('Add a domain')"],
    "remove a domain": ["#/domains", "tbody button:has-text('Remove')"],
    "add a certificate": ["#/certificates", "header button:has-text('Add a certificate')"],
    "change a setting": ["#/settings", "tbody button:has-text('Change') >> nth=0"],
    "an audit entry": ["#/audit", "tbody button:has-text('Show') >> nth=0"],
    "stop a plugin": ["#/plugins", "[aria-label='Stop smtp']"],
};

async function violations(page) {
    await page.evaluate(axe);
    const { violations: found } = await page.evaluate(() => axe.run());
    return found.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)} ${nodes[0].failureSummary ?? ""}`);
}

await test(async (open) => {
    // What is shown, with a few strings that a stranger may have chosen.
    const markup = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">";
    await cli("user", "add", "mallory@example.test", "--name", markup);
    await cli("alias", "add", "postmaster@example.test", "alice@example.test");
    await cli("site", "add", "www.example.test");
    await cli("route", "add", "www.example.test", "/old", "redirect", "/new");
    await sendMail("someone@example.org", "alice@example.test", `Subject: ${markup}\r\n\r\n${markup}\r\n`);

    for (const colorScheme of ["light", "dark"]) {
        for (const width of [1440, 360]) {
            const page = await open({ colorScheme, viewport: { width, height: 900 } });
            const where = `${colorScheme}, ${width}`;
            await page.goto(url);
            await page.waitForSelector("input[name=login]");
            const atLogin = await violations(page);
            is(atLogin.length, 0, `login, ${where}: axe finds nothing`);
            atLogin.forEach(note);
            await logIn(page);
            if (colorScheme === "light" && width === 1440) {
                // A script in two versions, made as a person does.
                await at(page, "#/scripts");
                await page.click("text=New script");
                await page.fill("dialog input[name=name]", "senders");
                await page.click("dialog button:has-text('Write it')");
                await page.waitForSelector(".check-line.is-ok");
                await page.click("text=Save and activate");
                await page.waitForSelector("text=Version 1 is in force");
                await page.click(".cm-content");
                await page.keyboard.press("Control+Home");
                await page.keyboard.type("-- more\n");
                await page.waitForTimeout(1200);
                await page.waitForSelector(".check-line.is-ok");
                await page.click("text=Save and activate");
                await page.waitForSelector("text=Version 2 is in force");
            }
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
        }
    }

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
