// The page of the real binary with the demo model, in Chromium: node page.mjs BINARY [FOLDER]. Prints
// one line per check and ends with 1 when one fails. With FOLDER it only takes the screenshots of the
// documentation.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';

import { check, finish, ready, start } from '../clients/harness.mjs';
import { close, launch, open, say, tab } from './browser.mjs';
import * as chat from './chat.mjs';
import { namelessControls, poorContrast, tooWide } from './look.mjs';
import { takeScreenshots } from './screenshots.mjs';
import * as tabs from './tabs.mjs';

async function testKey(browser) {
  const server = start(['--store', 'off'], { HOLDFAST_API_KEY: 'secret' });
  const url = await server.listening;
  await ready(url);
  const page = await open(browser, url);
  page.expected.push(/401/);
  await page.waitForSelector('dialog input[type=password]');
  check('the page loads without a key and asks for it', await page.getByText('asks for a key').isVisible());
  await page.fill('dialog input[type=password]', 'wrong');
  await page.press('dialog input[type=password]', 'Enter');
  await page.getByText('did not accept').waitFor();
  await page.fill('dialog input[type=password]', 'secret');
  await page.press('dialog input[type=password]', 'Enter');
  await page.waitForSelector('.server.ready');
  const reply = await say(page, 'Hello!');
  check('with the key it works', reply.length > 0, reply);
  await page.reload();
  await page.waitForSelector('.server.ready');
  check('a reload does not ask again', await page.locator('dialog').count() === 0);
  await tab(page, 'about');
  await page.getByRole('button', { name: 'Forget the API key' }).click();
  await page.waitForSelector('dialog input[type=password]');
  await close(page, 'key');
  server.child.kill('SIGTERM');
  await server.exited;
}

async function testLook(browser, url) {
  for (const colorScheme of ['light', 'dark']) {
    const page = await open(browser, url, { colorScheme });
    await say(page, 'Hello! My name is Marta and I live in Porto.');
    await page.getByRole('button', { name: 'Settings of this chat' }).click();
    const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    check(`${colorScheme}: the system's colours are taken`,
      (background.match(/\d+/g)[0] < 128) === (colorScheme === 'dark'), background);
    for (const name of ['chat', 'conversations', 'monitor', 'about']) {
      await tab(page, name);
      if (name === 'conversations') await page.locator('.conversation-head').first().click();
      if (name === 'monitor') await page.waitForSelector('.request-bar');
      if (name === 'about') await page.waitForSelector('.about-grid .card');
      const poor = await poorContrast(page);
      check(`${colorScheme}: ${name} can be read`, poor.length === 0, poor);
      const nameless = await namelessControls(page);
      check(`${colorScheme}: controls of ${name} have names`, nameless.length === 0, nameless);
    }
    const other = colorScheme === 'dark' ? 'light' : 'dark';
    while (await page.evaluate(() => document.documentElement.dataset.theme) !== other) {
      await page.click('#theme');
    }
    await page.reload();
    check(`${colorScheme}: another choice is kept`, await page.evaluate(() =>
      document.documentElement.dataset.theme) === other);
    await close(page, colorScheme);
  }
}

async function testPhone(browser, url) {
  const page = await open(browser, url, { viewport: { width: 360, height: 740 }, isMobile: true,
    hasTouch: true });
  await page.fill('.composer textarea', 'My name is Marta.');
  await page.tap('.send');
  await page.waitForSelector('.message.assistant .reuse details');
  for (const name of ['chat', 'conversations', 'monitor', 'about']) {
    await page.tap(`#tab-${name}`);
    if (name === 'conversations') await page.locator('.conversation-head').first().tap();
    await page.waitForTimeout(100);
    check(`phone: ${name} fits`, !await tooWide(page));
  }
  await page.tap('#tab-chat');
  await page.getByRole('button', { name: 'Chats' }).tap();
  await page.locator('.chat-list .open').first().tap();
  check('phone: the list opens a chat', await page.locator('.bubble').isVisible());
  await close(page, 'phone');
}

async function main() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-page-'));
  const server = start(['--store', path.join(folder, 'store')]);
  const url = await server.listening;
  const browser = await launch();
  try {
    await ready(url);
    if (process.argv[3]) {
      await takeScreenshots(browser, url, process.argv[3]);
    } else {
      for (const test of [chat.testReplies, chat.testBranches, chat.testStop, chat.testToolsAndThinking,
        chat.testHostileText, chat.testChats, tabs.testConversations, tabs.testMonitor, tabs.testAbout,
        testLook, testPhone, testKey]) {
        const begin = Date.now();
        try {
          await test(browser, url);
        } catch (error) {
          check(`${test.name} comes to its end`, false, error.message);
        }
        console.log(`     ${test.name}: ${((Date.now() - begin) / 1000).toFixed(1)} s`);
      }
    }
  } finally {
    await browser.close();
    server.child.kill('SIGTERM');
    await server.exited;
    fs.rmSync(folder, { recursive: true });
  }
}

await main();
finish();
