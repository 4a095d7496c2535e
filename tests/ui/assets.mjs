// assets.mjs - what is sent for the console's files, and the console behind a path
import { at, is, like, logIn, ok, settled, test, url } from "./browser.mjs";

await test(async (open) => {
    const page = await open();
    const answers = [];
    page.on("response", (answer) => answers.push(answer));
    await page.goto(url);
    await page.waitForSelector("input[name=login]");

    const entry = answers.find((answer) => answer.url() === url);
    is(entry.headers()["cache-control"], "no-cache", "the entry page is asked for again each time");
    const policy = entry.headers()["content-security-policy"];
    like(policy, /default-src 'none'/, "its policy allows nothing by default");
    ok(!/unsafe|\*|https?:/.test(policy), "and has no hole");
    const assets = answers.filter((answer) => answer.url().startsWith(`${url}assets/`));
    ok(assets.length >= 3, `its files are below the path (${assets.length})`);
    ok(assets.every((answer) => /immutable/.test(answer.headers()["cache-control"])), "they may be kept for ever");
    ok(assets.every((answer) => ["br", "gzip"].includes(answer.headers()["content-encoding"])), "and are sent compressed");

    const ask = (path, headers = {}) => page.request.get(path, { headers, maxRedirects: 0 });
    const missing = await ask(`${url}assets/app-GONE.js`);
    is(missing.status(), 404, "a file that is gone is a 404");
    ok(!(await missing.text()).includes("<html"), "and no page");
    const plain = await ask(assets.find((answer) => answer.url().endsWith(".js")).url(), { "Accept-Encoding": "identity" });
    is(plain.headers()["content-encoding"], undefined, "who takes no compression gets none");
    like(plain.headers()["content-type"], /javascript/, "but the right type");
    like((await ask(url.replace(/\/$/, ""))).headers().location ?? "", /\/posthouse\/$/, "without its last slash the path leads there");

    await logIn(page);
    await at(page, "#/accounts");
    await page.click("tr:has-text('alice@example.test')");
    await page.waitForSelector("h1:has-text('alice@example.test')");
    await page.reload();
    await page.waitForSelector("h1:has-text('alice@example.test')");
    ok(true, "a deep link works after a reload");
    await at(page, "#/");
    await page.waitForSelector(".badge:has-text('Live')");
    ok(true, "and so does what is live");
    await at(page, "#/scripts");
    await page.click("text=New script");
    await page.fill("dialog input[name=name]", "try");
    await page.click("dialog button:has-text('Write it')");
    await page.waitForSelector(".cm-content");
    await settled(page);
    ok(true, "and what is loaded later");
});
