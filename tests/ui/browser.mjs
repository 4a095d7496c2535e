// browser.mjs - what browser tests share: TAP, the browser, logging in, and watching for complaints
import { execFile } from "node:child_process";
import https from "node:https";
import net from "node:net";
import { createRequire } from "node:module";
import { promisify } from "node:util";

const { env } = process;
const require = createRequire(`${env.PH_UI_MODULES}/`);
const { chromium } = require("playwright-core");

export const url = env.PH_UI_URL;
export const ports = JSON.parse(env.PH_UI_PORTS);
export const operator = { login: "admin", password: env.PH_UI_PASSWORD };
export const userPassword = env.PH_UI_USER_PASSWORD;
export const axeFile = require.resolve("axe-core/axe.min.js");

// -- TAP ----------------------------------------------------------------------------------------------

let count = 0;

export function ok(good, text) {
    console.log(`${good ? "" : "not "}ok ${++count} - ${text}`);
    return good;
}

export function is(got, wanted, text) {
    if (!ok(got === wanted, text)) note(`got ${JSON.stringify(got)}, wanted ${JSON.stringify(wanted)}`);
}

export function like(got, pattern, text) {
    if (!ok(pattern.test(got ?? ""), text)) note(`got ${JSON.stringify(got)}, wanted ${pattern}`);
}

export const note = (text) => console.log(String(text).replace(/^/gm, "# "));

// -- the browser --------------------------------------------------------------------------------------

export const browser = await chromium.launch({
    executablePath: env.PH_UI_CHROMIUM,
    // Chromium's own sandbox does not run as root.
    args: process.getuid() === 0 ? ["--no-sandbox"] : [],
});

// What pages complained of: console errors, exceptions, breaches of the policy, requests elsewhere.
export const complaints = [];

// A refusal that a test provokes is printed by the browser too; those are expected.
let expected = [];
export const expectRefusals = (...statuses) => {
    expected = statuses;
};

export async function newPage(options = {}) {
    const context = await browser.newContext({
        ignoreHTTPSErrors: true, viewport: { width: 1280, height: 900 }, locale: "en-GB", ...options,
    });
    const page = await context.newPage();
    page.setDefaultTimeout(15000);
    page.on("console", (message) => {
        if (!["error", "warning"].includes(message.type())) return;
        const refused = /status of (\d+)/.exec(message.text());
        // GET /session answers 401 to someone who has not logged in.
        if (refused && (expected.includes(Number(refused[1])) || /\/api\/v1\/session$/.test(message.location().url))) return;
        complaints.push(`${message.type()} at ${page.url()}: ${message.text()}`);
    });
    page.on("pageerror", (error) => complaints.push(`exception at ${page.url()}: ${error.stack}`));
    page.on("request", (request) => {
        if (!request.url().startsWith(url) && !/^(data|blob):/.test(request.url())) complaints.push(`asks ${request.url()}`);
    });
    return page;
}

export async function logIn(page, { login, password } = operator) {
    await page.goto(url);
    await page.fill("input[name=login]", login);
    await page.fill("input[name=password]", password);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".shell");
}

// Goes to a place of the console and waits until it shows what it asked for.
export async function at(page, hash) {
    await page.evaluate((to) => {
        location.hash = to;
    }, hash);
    await settled(page);
}

export async function settled(page) {
    await page.waitForTimeout(50);
    await page.waitForFunction(() => !document.querySelector(".progress.is-on, .loading, .is-stale"));
}

// Pastes a text where the focus is.
export const paste = (page, text) => page.evaluate((pasted) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", pasted);
    document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}, text);

export const said = (page, text) => page.locator(".toast", { hasText: text }).first().waitFor();

// -- the server, by its other doors -------------------------------------------------------------------

const run = promisify(execFile);

export async function cli(...words) {
    const { stdout } = await run(env.PH_UI_PROGRAM, ["--state", env.PH_UI_STATE, ...words]);
    return stdout;
}

// One request to a site; gives status and text.
export function fetchSite(host, path, scheme = "https") {
    return new Promise((resolve, reject) => {
        const request = https.request({
            host: "127.0.0.1", port: ports[scheme], servername: host, path, headers: { Host: host }, rejectUnauthorized: false,
            agent: false,
        }, (answer) => {
            let text = "";
            answer.setEncoding("utf8");
            answer.on("data", (more) => {
                text += more;
            });
            answer.on("end", () => resolve({ status: answer.statusCode, text }));
        });
        request.on("error", reject);
        request.end();
    });
}

// One message by SMTP; gives the reply to each command, the last one first refused or the one to the message.
export function sendMail(from, to, text = "Subject: test\r\n\r\nhello\r\n") {
    const lines = ["EHLO client.example.org", `MAIL FROM:<${from}>`, `RCPT TO:<${to}>`, "DATA", `${text}.`];
    return new Promise((resolve, reject) => {
        const socket = net.connect(ports.smtp, "127.0.0.1");
        const replies = [];
        let buffer = "";
        socket.setTimeout(15000, () => socket.destroy(new Error("SMTP: no reply")));
        socket.on("error", reject);
        socket.on("data", (data) => {
            buffer += data;
            for (;;) {
                const match = /^(?:\d{3}-[^\n]*\n)*\d{3} [^\n]*\n/.exec(buffer);
                if (!match) return;
                buffer = buffer.slice(match[0].length);
                const reply = match[0].trim().split("\n").pop();
                replies.push(reply);
                if (/^[45]/.test(reply) || lines.length === 0) {
                    socket.end("QUIT\r\n");
                    resolve(replies);
                    return;
                }
                socket.write(`${lines.shift()}\r\n`);
            }
        });
    });
}

// -- the frame ----------------------------------------------------------------------------------------

// Runs the test; whatever happens, the browser is closed and the plan is printed.
export async function test(body) {
    const pages = [];
    const open = async (options) => {
        const page = await newPage(options);
        pages.push(page);
        return page;
    };
    try {
        await body(open);
    } catch (error) {
        ok(false, `no exception: ${String(error.message).split("\n")[0]}`);
        note(error.stack);
        for (const page of pages) {
            note(`${page.url()}: ${(await page.locator("body").innerText().catch(() => "")).slice(0, 1500)}`);
        }
    }
    ok(complaints.length === 0, "no page complained");
    complaints.forEach((complaint) => note(complaint));
    console.log(`1..${count}`);
    await browser.close();
}
