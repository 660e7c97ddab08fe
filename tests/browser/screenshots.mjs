// Pictures for the documentation.
import path from 'node:path';

import { finished, open, say, tab } from './browser.mjs';

const SYSTEM = 'You are a helpful assistant.';

// A few conversations, so that there is something to see.
async function converse(page) {
  await page.getByRole('button', { name: 'Settings of this chat' }).click();
  await page.fill('textarea[name=system]', SYSTEM);
  await page.getByRole('button', { name: 'Close the settings' }).click();
  await say(page, 'Hello! My name is Marta and I live in Porto.');
  await say(page, 'Tell me a story.');
  await page.hover('.message.user >> nth=1');
  await page.getByRole('button', { name: 'Edit, as a new branch' }).nth(1).click();
  await page.fill('.editor textarea', 'Where do I live?');
  await page.press('.editor textarea', 'Enter');
  await page.waitForFunction(() => document.querySelectorAll('.branches').length > 0);
  await finished(page);
  await say(page, 'What is my name?');
}

export async function takeScreenshots(browser, url, folder) {
  const size = { width: 1180, height: 740 };
  const shot = (page, name) => page.screenshot({ path: path.join(folder, `${name}.png`) });
  const light = await open(browser, url, { viewport: size, colorScheme: 'light' });
  await converse(light);
  const { page: dark } = { page: await open(browser, url, { viewport: size, colorScheme: 'dark' }) };
  await converse(dark);
  await dark.waitForTimeout(1500);
  for (const [page, scheme] of [[light, 'light'], [dark, 'dark']]) {
    await tab(page, 'monitor');
    await page.waitForTimeout(3000);
    await shot(page, `monitor_${scheme}`);
    await tab(page, 'conversations');
    await page.locator('.conversation-head').first().click();
    await page.waitForTimeout(3200);
    await shot(page, `conversations_${scheme}`);
    await tab(page, 'about');
    await page.waitForSelector('.about-grid .card');
    await page.waitForTimeout(300);
    await shot(page, `about_${scheme}`);
    await tab(page, 'chat');
    await page.mouse.move(5, 400);
    await page.waitForTimeout(500);
    await shot(page, `chat_${scheme}`);
  }
  const phone = await open(browser, url, { viewport: { width: 390, height: 780 }, colorScheme: 'light',
    isMobile: true, hasTouch: true });
  await say(phone, 'Hello! My name is Marta and I live in Porto.');
  await say(phone, 'Tell me a story.');
  await phone.waitForTimeout(400);
  await shot(phone, 'chat_phone');
}
