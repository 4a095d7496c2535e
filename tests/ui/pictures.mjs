// pictures.mjs - takes the pictures of admin-ui/pictures
import { at, browser, logIn, newPage, paste, sendMail, settled, url } from "./browser.mjs";

const { PH_UI_README: readme, PH_UI_PICTURES: folder, PH_UI_SCREENS: only = "" } = process.env;
const alice = "#/accounts/alice%40example.org";
const screens = {
    overview: "#/", start: "#/start", domains: "#/domains", records: "#/domains/example.org", aliases: "#/aliases", accounts: "#/accounts", account: alice,
    passwords: `${alice}/passwords`, mailboxes: `${alice}/mailboxes`, deleted: `${alice}/deleted`,
    contacts: "#/contacts", contact: "#/contacts?filter=zoe", upstreams: "#/upstreams", upstream: "#/upstreams/corp",
    "add-upstream": "#/upstreams?filter=corp", sites: "#/sites",
    site: "#/sites/www.example.org", scripts: "#/scripts", script: "#/scripts/hello", versions: "#/scripts/hello/versions",
    test: "#/scripts/hello/test", plugins: "#/plugins", plugin: "#/plugins/smtp", settings: "#/settings", sessions: "#/sessions",
    log: "#/log", audit: "#/audit", certificates: "#/certificates", operators: "#/operators", tenants: "#/tenants",
    "api-keys": "#/api-keys",
};

async function writeScript(page) {
    await at(page, "#/scripts");
    await page.click("text=New script");
    await page.fill("dialog input[name=name]", "hello");
    await page.selectOption("dialog select[name=example]", "http.content");
    await page.click("dialog button:has-text('Write it')");
    await page.waitForSelector(".check-line.is-ok");
    await page.click("text=Save and activate");
    await page.waitForSelector("text=Version 1 is in force");
    await page.click(".cm-content");
    await page.keyboard.press("Control+Home");
    await paste(page, "-- Greets whoever asks.\n");
    await page.waitForTimeout(1200);
    await page.click("text=Save and activate");
    await page.waitForSelector("text=Version 2 is in force");
}

// What is opened before the picture is taken.
const opened = { contact: "[aria-label='Change Zoe Outside']", upstream: "text=Advanced", "add-upstream": "text=Add an upstream" };

const first = await newPage();
await logIn(first);
await writeScript(first);
await first.context().close();

if (readme) {
    const page = await newPage({ viewport: { width: 1280, height: 800 }, colorScheme: "light" });
    await logIn(page);
    await page.waitForSelector(".figure");
    // Half a minute of figures, with some mail coming in.
    for (let i = 0; i < 30; i++) {
        for (let j = 0; j < (i * 7) % 5; j++) await sendMail("someone@example.net", "info@example.org");
        await page.waitForTimeout(1000);
    }
    await page.screenshot({ path: readme });
} else {
    for (const colorScheme of ["light", "dark"]) {
        for (const width of [1440, 360, 2560]) {
            const page = await newPage({ viewport: { width, height: 900 }, colorScheme });
            const picture = (name) => page.screenshot({ path: `${folder}/${name}-${colorScheme}-${width}.png`, fullPage: width < 2000 });
            await page.goto(url);
            await page.waitForSelector("input[name=login]");
            await picture("login");
            await logIn(page);
            for (const [name, hash] of Object.entries(screens)) {
                if (only && !only.split(" ").includes(name)) continue;
                await at(page, hash);
                if (opened[name]) {
                    await page.locator(opened[name]).first().click();
                    await page.waitForTimeout(200);
                }
                if (name === "overview") await page.waitForSelector(".figure");
                if (name === "script") await page.waitForSelector(".check-line.is-ok");
                await settled(page);
                await picture(name);
                if (opened[name]) await page.keyboard.press("Escape");
            }
            await page.context().close();
        }
    }
}
await browser.close();
