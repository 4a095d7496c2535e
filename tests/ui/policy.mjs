// policy.mjs - a script decides at RCPT; what it does wrong is shown with line and input
import { at, is, like, logIn, ok, paste, said, sendMail, settled, test } from "./browser.mjs";

async function write(page, text) {
    await page.click(".cm-content");
    await page.keyboard.press("Control+A");
    await paste(page, text);
    await page.waitForSelector(".check-line.is-ok");
}

const refusal = `local refused = { ["spam@example.net"] = true }
return {
["smtp.rcpt"] = function(ctx)
if refused[ctx.sender] then
return reject("not wanted here")
end
end,
}
`;
const broken = `return {
["smtp.rcpt"] = function(ctx)
local nothing
return nothing.at_all
end,
}
`;

await test(async (open) => {
    const page = await open();
    await logIn(page);
    const mail = async (from) => (await sendMail(from, "alice@example.test")).at(-1);
    const until = async (from, pattern) => {
        let reply = "";
        for (let i = 0; i < 50 && !pattern.test(reply); i++) {
            reply = await mail(from);
            await page.waitForTimeout(100);
        }
        return reply;
    };
    like(await mail("spam@example.net"), /^250/, "without a script the sender is taken");

    await at(page, "#/scripts");
    await page.click("text=New script");
    await page.fill("dialog input[name=name]", "senders");
    await page.click("dialog button:has-text('Write it')");
    await page.waitForSelector(".cm-content");
    await write(page, refusal);
    await page.click("text=Save and activate");
    await said(page, "Version 1 is in force");
    like(await until("spam@example.net", /^5/), /^550 .*not wanted here/, "the script refuses the sender");
    like(await mail("friend@example.net"), /^250/, "and no other");

    // -- a test run changes nothing
    await at(page, "#/scripts/senders/test");
    await page.fill("textarea[name=input]", JSON.stringify({ sender: "spam@example.net", recipient: "alice@example.test" }));
    await page.click("button:has-text('Run')");
    await page.waitForSelector(".badge:has-text('ran')");
    like(await page.innerText("pre[aria-label=Result]"), /reject/, "a test run shows what it would answer");
    await page.fill("textarea[name=input]", "{ no JSON");
    await page.click("button:has-text('Run')");
    await page.waitForSelector("textarea[aria-invalid=true]");
    ok(true, "an input that is no JSON is refused at its field");

    // -- a version that fails
    await at(page, "#/scripts/senders");
    await page.waitForSelector(".cm-content");
    await write(page, broken);
    await page.click("text=Save and activate");
    await said(page, "Version 2 is in force");
    like(await until("friend@example.net", /^4/), /^4/, "a script that fails defers, it does not let through");
    await page.waitForTimeout(1200);
    await at(page, "#/scripts");
    await at(page, "#/scripts/senders");
    await page.waitForSelector(".last-error");
    const error = await page.innerText(".last-error");
    like(error, /smtp\.rcpt/, "the error names the hook");
    like(error, /Line 4/, "the line");
    like(error, /nothing/, "the reason");
    await page.click(".last-error summary");
    like(await page.innerText(".last-error pre"), /friend@example\.net/, "and the input");

    // -- back, and off
    await page.click("header button:has-text('Roll back')");
    await page.click("dialog button:has-text('Roll back')");
    await said(page, "is rolled back");
    like(await until("friend@example.net", /^250/), /^250/, "rolled back, others are taken again");
    like(await mail("spam@example.net"), /^550/, "and the sender is refused again");
    await settled(page);
    await page.click("header button:has-text('Switch off')");
    await page.click("dialog button:has-text('Switch off')");
    await said(page, "is off");
    like(await until("spam@example.net", /^250/), /^250/, "switched off, all are taken");
    await settled(page);
    is(await page.locator(".page-head .badge").first().innerText(), "inactive", "and the page says so");
});
