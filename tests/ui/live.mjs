// live.mjs - sessions and log as they happen; and the lists of what is added once and kept
import { readFileSync } from "node:fs";
import tls from "node:tls";
import { at, cli, expectRefusals, is, like, logIn, ok, ports, said, settled, test, userPassword } from "./browser.mjs";

// A mail program that stays.
function connect() {
    return new Promise((resolve, reject) => {
        const socket = tls.connect({ port: ports.imaps, host: "127.0.0.1", rejectUnauthorized: false });
        let text = "";
        socket.on("error", reject);
        socket.on("data", (data) => {
            text += data;
            if (/^\* OK/.test(text)) {
                text = "";
                socket.write(`a LOGIN "alice@example.test" "${userPassword}"\r\n`);
            } else if (/^a OK/m.test(text)) {
                resolve(socket);
            }
        });
    });
}

await test(async (open) => {
    const page = await open();
    await logIn(page);

    // -- sessions
    await at(page, "#/sessions");
    const row = page.locator("tr:has-text('alice@example.test')");
    is(await row.count(), 0, "nobody reads alice's mail");
    const socket = await connect();
    const cut = new Promise((resolve) => socket.on("close", resolve));
    await row.first().waitFor();
    ok(true, "a mail program shows up by itself");
    await page.click("button:has-text('Pause')");
    like(await page.innerText(".page-head .badge"), /Paused/, "the view can be paused");
    await page.click("button:has-text('Go on')");
    await row.locator("button:has-text('Cut')").click();
    like(await page.innerText("dialog"), /may connect again/, "cutting says what it does");
    await page.click("dialog button:has-text('Cut it')");
    await said(page, "The session is cut");
    await cut;
    ok(true, "the mail program is disconnected");
    await page.waitForFunction(() => !document.querySelector("tbody")?.innerText.includes("alice@example.test"));
    ok(true, "and gone from the list");

    // -- the log
    await at(page, "#/log");
    await page.waitForSelector(".log-line");
    await page.waitForSelector(".badge:has-text('Live')");
    const lines = () => page.locator(".log-line", { hasText: "domain.add" });
    const before = await lines().count();
    await cli("domain", "add", "one.example");
    await page.waitForFunction((n) => [...document.querySelectorAll(".log-line")].filter((line) => line.textContent.includes("domain.add")).length > n, before);
    ok(true, "a new line shows up by itself");
    await page.click("button:has-text('Pause')");
    await cli("domain", "add", "two.example");
    await page.waitForSelector(".badge:has-text('waiting')");
    is(await page.locator(".log-line", { hasText: "two.example" }).count(), 0, "paused, it waits");
    is(await page.getAttribute(".log", "aria-live"), "off", "and is not read out");
    await page.click("button:has-text('Go on')");
    await page.locator(".log-line", { hasText: "two.example" }).first().waitFor();
    ok(true, "and comes when one goes on");
    await page.selectOption(".filter select", "error");
    await page.waitForFunction(() => location.hash.includes("level=error"));
    await page.waitForFunction(() => ![...document.querySelectorAll(".log-line")].some((line) => line.textContent.includes("domain.add")));
    ok(true, "the level is filtered by the server");

    // -- certificates
    const folder = `${process.env.PH_UI_STATE}-certificate`;
    await at(page, "#/certificates");
    await page.click("header button:has-text('Add a certificate')");
    await page.fill("dialog textarea[name=certificate]", "not a certificate");
    await page.click("dialog button:has-text('Add')");
    await page.waitForSelector("dialog textarea[name=certificate][aria-invalid=true]");
    ok(true, "what is no certificate is refused at its field");
    await page.fill("dialog textarea[name=certificate]", readFileSync(`${folder}/cert.pem`, "utf8"));
    await page.fill("dialog textarea[name=key]", readFileSync(`${folder}/key.pem`, "utf8"));
    await page.click("dialog button:has-text('Add')");
    await said(page, "The certificate is in force");
    await page.waitForSelector("td:has-text('mail.example.test')");
    like(await page.innerText("tbody"), /ends soon/, "one that ends soon is marked");
    const shown = await new Promise((resolve, reject) => {
        const to = tls.connect({ port: ports.imaps, host: "127.0.0.1", servername: "mail.example.test", rejectUnauthorized: false }, () => {
            resolve(to.getPeerCertificate().subject.CN);
            to.destroy();
        });
        to.on("error", reject);
    });
    is(shown, "mail.example.test", "and mail programs are shown it");

    // -- keys
    await at(page, "#/api-keys");
    await page.click("header button:has-text('Make a key')");
    await page.fill("dialog input[name=label]", "Backup");
    await page.fill("dialog input[name=days]", "some");
    await page.click("dialog button:has-text('Make')");
    await page.waitForSelector("dialog input[name=days][aria-invalid=true]");
    await page.fill("dialog input[name=days]", "30");
    await page.click("dialog button:has-text('Make')");
    const key = await page.innerText(".once code");
    await page.click("text=I have it");
    await settled(page);
    ok(!(await page.content()).includes(key), "a key is shown once");
    const status = await page.evaluate(async (bearer) => (await fetch("api/v1/domains", {
        headers: { Authorization: `Bearer ${bearer}` }, credentials: "omit",
    })).status, key);
    is(status, 200, "and works");
    await page.click("tbody button:has-text('Remove')");
    await page.click("dialog button:has-text('Remove')");
    await said(page, "The key is removed");
    expectRefusals(401);
    const after = await page.evaluate(async (bearer) => (await fetch("api/v1/domains", {
        headers: { Authorization: `Bearer ${bearer}` }, credentials: "omit",
    })).status, key);
    is(after, 401, "until it is removed");

    // -- tenants and operators
    await at(page, "#/tenants");
    await page.click("header button:has-text('Add a tenant')");
    await page.fill("dialog input[name=name]", "harbour");
    await page.click("dialog button:has-text('Add')");
    await said(page, "harbour is added");
    await at(page, "#/operators");
    await page.click("header button:has-text('Add an operator')");
    await page.fill("dialog input[name=name]", "pilot");
    await page.fill("dialog input[name=password]", "a-pilot-of-the-harbour");
    await page.fill("dialog input[name=tenant]", "harbour");
    await page.click("dialog button:has-text('Add')");
    await said(page, "pilot is added");
    like(await page.innerText("tr:has-text('pilot')"), /harbour/, "a tenant has an admin");
    ok(await page.isDisabled("tr:has-text('everything') button:has-text('Remove')"), "nobody removes himself");
});
