// The playground in Chromium: runs a sample by keyboard, watches the canvas fill, goes through its steps, inserts the
// text. At the width of a desk and of a phone. What is waited for is a state of the page; nothing here sleeps and hopes.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";

const given = JSON.parse(process.env.MERCURY_EDITOR_TEST);
const { chromium } = createRequire(join(given.tools, "x.js"))("playwright-core");
const SECONDS = 240_000; // a hang is a failure; nothing is asserted about how fast anything is

let browser;
before(async () => {
	browser = await chromium.launch({ executablePath: given.chromium, args: ["--no-sandbox"] });
});
after(() => browser?.close());

async function opened(width, height) {
	const page = await browser.newPage({ viewport: { width, height }, colorScheme: "light" });
	page.setDefaultTimeout(SECONDS);
	const elsewhere = [];
	const problems = [];
	page.on("request", (request) => request.url().startsWith(given.url) || elsewhere.push(request.url()));
	page.on("pageerror", (error) => problems.push(String(error)));
	page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
	await page.goto(given.url);
	await page.waitForFunction(() => / on /.test(document.getElementById("health").textContent));
	return { page, elsewhere, problems };
}

const text = (page, id) => page.locator(`#${id}`).innerText();
const picture = (page, name) =>
	given.images ? page.screenshot({ path: join(given.images, `${name}.png`), animations: "disabled" }) : Promise.resolve();
const fits = (page) =>
	page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth);

const SIZES = [["playground", 1280, 740], ["playground-phone", 390, 844]];
for (const [name, width, height] of SIZES) {
	test(`at ${width} pixels a sample is run, watched, gone through and inserted, by keyboard`, async () => {
		const { page, elsewhere, problems } = await opened(width, height);
		assert.ok(await fits(page), "the page is wider than its window");
		await page.locator("#sample").selectOption({ index: given.sample });
		await page.locator(".cm-content").focus();
		const code = await page.locator(".cm-content").innerText();
		await page.keyboard.press("Control+Enter");
		if (given.masks) await page.waitForSelector("#canvas .mask");
		await page.waitForSelector("#canvas .token");
		await picture(page, `${name}-filling`);
		await page.waitForFunction(() => document.getElementById("phase").textContent === "done");
		await picture(page, name);
		assert.ok(await fits(page), "the page is wider than its window");
		assert.equal(await page.locator("#canvas .mask").count(), 0);
		assert.match(await text(page, "syntax"), /valid|worse/);
		assert.ok(Number(await text(page, "forwards")) >= 1);

		const label = await text(page, "step-label");
		const [, last, all] = label.match(/step (\d+) of (\d+)/);
		assert.equal(last, all);
		assert.ok(Number(all) > 1);
		await page.locator("#step").focus();
		await page.keyboard.press("ArrowLeft");
		assert.equal(await text(page, "step-label"), `step ${Number(all) - 1} of ${all}`);
		await page.keyboard.press("Home");
		assert.equal(await text(page, "step-label"), `step 1 of ${all}`);
		await page.keyboard.press("End");
		const filled = (await page.locator("#canvas .token").allInnerTexts()).join("").trim();
		assert.ok(filled);

		await page.locator("#insert").focus();
		await page.keyboard.press("Enter");
		const inserted = await page.locator(".cm-content").innerText();
		assert.ok(inserted.length > code.length);
		assert.ok(inserted.includes(filled.split("\n")[0]));
		assert.deepEqual(elsewhere, []);
		assert.deepEqual(problems, []);
		await page.close();
	});
}

test("a run is stopped by its button, and the page says so", async () => {
	const { page } = await opened(1280, 740);
	await page.locator("#tokens").fill("512");
	await page.locator("#run").click();
	await page.waitForSelector("#canvas .token");
	await page.locator("#stop").click();
	await page.waitForFunction(() => document.getElementById("phase").textContent === "stopped");
	assert.ok(await page.locator("#run").isEnabled());
	await page.close();
});
