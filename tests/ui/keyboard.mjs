// keyboard.mjs - no mouse at all
import { is, like, ok, operator, settled, test, url } from "./browser.mjs";

await test(async (open) => {
    const page = await open();
    const focused = () => page.evaluate(() => {
        const element = document.activeElement;
        return element?.getAttribute("name") || element?.getAttribute("aria-label") || element?.textContent?.trim() || element?.tagName;
    });
    // Presses Tab until what has the focus is called so.
    const tabTo = async (name) => {
        for (let i = 0; i < 60; i++) {
            await page.keyboard.press("Tab");
            if (await focused() === name) return true;
        }
        return false;
    };
    await page.goto(url);
    await page.waitForSelector("input[name=login]");
    is(await focused(), "login", "the login field has the focus");
    await page.keyboard.type(operator.login);
    await page.keyboard.press("Tab");
    await page.keyboard.type("wrong");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".wrong");
    is(await focused(), "password", "after a wrong password the focus is there again");
    await page.keyboard.type(operator.password);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".shell");
    await settled(page);

    await page.keyboard.press("Tab");
    is(await focused(), "Skip to the content", "the first stop skips the navigation");
    ok(await page.evaluate(() => {
        const box = document.activeElement.getBoundingClientRect();
        return box.top >= 0 && getComputedStyle(document.activeElement).outlineStyle !== "none";
    }), "and is seen when it has the focus");

    ok(await tabTo("Accounts"), "the navigation is reached by Tab");
    await page.keyboard.press("Enter");
    await page.waitForSelector("h1:has-text('Accounts')");
    await settled(page);
    is(await page.evaluate(() => document.activeElement?.tagName), "MAIN", "a new screen has the focus");
    like(await page.title(), /^Accounts/, "and its name is the title");

    await page.keyboard.press("/");
    is(await focused(), "Search accounts", "\"/\" goes to the search");
    await page.keyboard.type("bob");
    await page.waitForFunction(() => location.hash.includes("filter=bob"));
    await settled(page);
    ok(await tabTo("bob@example.test"), "a row is a link");
    await page.keyboard.press("Enter");
    await page.waitForSelector("h1:has-text('bob@example.test')");
    await settled(page);

    ok(await tabTo("Suspend"), "a button is reached");
    await page.keyboard.press("Enter");
    await page.waitForSelector("dialog[open]");
    is(await focused(), "Cancel", "a question begins at the harmless answer");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog[open]", { state: "detached" });
    await page.waitForFunction(() => document.activeElement?.textContent?.trim() === "Suspend", null, { timeout: 5000 }).catch(() => {});
    is(await focused(), "Suspend", "and gives the focus back");
    await page.goBack();
    await page.waitForSelector("h1:has-text('Accounts')");
    is(await page.inputValue("[data-search]"), "bob", "back is back to the search as it was");
});
