// accounts.mjs - the life of an account
import tls from "node:tls";
import { at, cli, expectRefusals, is, like, logIn, ok, ports, said, sendMail, settled, test } from "./browser.mjs";

const address = "carol@example.test";
const markup = "<img src=x onerror=alert(1)>Carol";

// One IMAP conversation; gives the last reply of each command.
function imap(login, password, ...commands) {
    return new Promise((resolve, reject) => {
        const socket = tls.connect({ port: ports.imaps, host: "127.0.0.1", rejectUnauthorized: false });
        const lines = [`LOGIN "${login}" "${password}"`, ...commands];
        const replies = [];
        let buffer = "";
        socket.setTimeout(15000, () => socket.destroy(new Error("IMAP: no reply")));
        socket.on("error", reject);
        socket.on("data", (data) => {
            buffer += data;
            const greeting = /^\* OK/.test(buffer) && replies.length === 0 && !socket.begun;
            const done = /^a (OK|NO|BAD)[^\n]*\n/m.exec(buffer);
            if (!greeting && !done) return;
            if (done) replies.push(buffer.trim());
            socket.begun = true;
            buffer = "";
            if (lines.length === 0) {
                socket.destroy();
                resolve(replies);
            } else {
                socket.write(`a ${lines.shift()}\r\n`);
            }
        });
    });
}

await test(async (open) => {
    const page = await open();
    await logIn(page);

    // -- made
    await at(page, "#/accounts");
    await page.click("text=Add an account");
    await page.fill("dialog input[name=address]", address);
    await page.fill("dialog input[name=name]", markup);
    await page.fill("dialog input[name=password]", "first-password-1");
    await page.fill("dialog input[name=quota_bytes]", "much");
    await page.click("dialog button:has-text('Add')");
    await page.waitForSelector("dialog input[name=quota_bytes][aria-invalid=true]");
    ok(true, "a quota that is no size is refused at its field");
    await page.fill("dialog input[name=quota_bytes]", "10 MiB");
    await page.click("dialog button:has-text('Add')");
    await said(page, `${address} is added`);
    await settled(page);
    is(await page.locator(`tr:has-text('${address}') td[data-title=Name]`).innerText(), markup, "markup in a name is shown as text");
    is(await page.locator("tbody img").count(), 0, "and makes no element");
    expectRefusals(409);
    await page.click("text=Add an account");
    await page.fill("dialog input[name=address]", address);
    await page.click("dialog button:has-text('Add')");
    await page.waitForSelector("dialog .wrong, dialog .notice.is-bad");
    ok(true, "a second one of that address is refused");
    await page.keyboard.press("Escape");

    // -- searched: the server does it, and the address keeps it
    await page.fill("[data-search]", "carol");
    await page.waitForFunction(() => location.hash.includes("filter=carol"));
    await settled(page);
    is(await page.locator("tbody tr").count(), 1, "the search finds one");
    await page.reload();
    await page.waitForSelector("tbody tr");
    is(await page.inputValue("[data-search]"), "carol", "the search is in the address");

    // -- used
    like((await sendMail("someone@example.org", address, "Subject: <b>first</b>\r\nFrom: Someone <someone@example.org>\r\n\r\nhi\r\n")).at(-1), /^250/, "it gets mail");
    const user = await open();
    await logIn(user, { login: address, password: "first-password-1" });
    await settled(user);
    is(await user.innerText("h1"), address, "its owner sees its page");
    is(await user.locator(".side .nav a").count(), 1, "and nothing else to go to");
    await at(user, "#/accounts");
    like(await user.innerText(".content"), /no such page/, "not the list of accounts");
    await at(user, `#/accounts/${encodeURIComponent(address)}/mailboxes`);
    await user.click("td a:has-text('INBOX')");
    await user.waitForSelector("text=<b>first</b>");
    ok(true, "its messages are listed, a subject with markup as text");

    // -- passwords
    await at(user, `#/accounts/${encodeURIComponent(address)}/passwords`);
    await user.click("text=Make one");
    await user.fill("dialog input[name=label]", "Phone");
    await user.click("dialog button:has-text('Make')");
    const secret = await user.innerText(".once code");
    await user.click("text=I have it");
    await settled(user);
    ok(!(await user.content()).includes(secret), "an app password is shown once");
    const replies = await imap(address, secret, "SELECT INBOX", "STORE 1 +FLAGS (\\Deleted)", "EXPUNGE");
    ok(replies.every((reply) => /a OK/.test(reply)) && replies.length === 4, "it logs in, and mail is deleted");
    await user.fill("input[name=old]", "not the password");
    await user.fill("input[name=password]", "second-password-2");
    await user.fill("input[name=again]", "second-password-2");
    expectRefusals(409, 401, 403, 400);
    await user.click("text=Change the password");
    await user.waitForSelector("form .wrong, form .notice.is-bad");
    ok(true, "the old password is needed to change it");
    await user.fill("input[name=old]", "first-password-1");
    await user.click("text=Change the password");
    await said(user, "The password is changed");

    // -- deleted mail
    await at(user, `#/accounts/${encodeURIComponent(address)}/deleted`);
    await user.click("tbody button:has-text('Undelete')");
    await said(user, "Back in INBOX");
    const back = await imap(address, secret, "SELECT INBOX");
    like(back.at(-1), /\* 1 EXISTS/, "what was deleted is back");

    // -- changed
    await at(page, `#/accounts/${encodeURIComponent(address)}`);
    await page.fill("input[name=quota_bytes]", "20 MiB");
    await page.click("button:has-text('Save')");
    await said(page, "Saved");
    like(await cli("user", "show", address), /20971520/, "the quota is changed");
    await at(page, `#/accounts/${encodeURIComponent(address)}/aliases`);
    await page.click("text=Add an alias");
    await page.fill("dialog input[name=address]", "singer@example.test");
    await page.click("dialog button:has-text('Add')");
    await page.waitForSelector("td:has-text('singer@example.test')");
    like((await sendMail("someone@example.org", "singer@example.test")).at(-1), /^250/, "mail to its alias arrives");

    // -- ended
    await at(page, `#/accounts/${encodeURIComponent(address)}`);
    await page.click("header button:has-text('Suspend')");
    await page.click("dialog button:has-text('Suspend')");
    await said(page, "is suspended");
    like((await imap(address, secret)).at(-1), /a NO/, "suspended, it cannot log in");
    await settled(page);
    await page.click("header button:has-text('Close')");
    like(await page.innerText("dialog"), /mail to it is refused/, "closing says what it means");
    await page.click("dialog button:has-text('Close the account')");
    await said(page, "is closed");
    await settled(page);
    await page.click("header button:has-text('Erase')");
    like(await page.innerText("dialog"), /cannot be taken back/, "erasing says what is lost");
    ok(await page.isDisabled("dialog button:has-text('Erase for ever')"), "and wants the address typed");
    await page.fill("dialog form input", address);
    await page.click("dialog button:has-text('Erase for ever')");
    await said(page, "is erased");
    await at(page, "#/audit");
    await page.waitForSelector("text=user.erase");
    await page.click("tr:has-text('user.change') >> nth=0 >> button:has-text('Show')");
    like(await page.innerText("dialog .diff"), /20971520/, "the audit log shows what was changed");
});
