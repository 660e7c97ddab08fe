// Pictures for the documentation.
import path from 'node:path';

import { finished, open, say, tab } from './browser.mjs';

// A conversation with an edit, so that there is something to see.
async function converse(page) {
  await page.getByRole('button', { name: 'Settings of this chat' }).click();
  await page.fill('textarea[name=system]', 'You are a helpful assistant.');
  await page.getByRole('button', { name: 'Close the settings' }).click();
  await say(page, 'Hello! My name is Marta and I live in Porto.');
  await say(page, 'What can you do for me?');
  await page.hover('.message.user >> nth=1');
  await page.getByRole('button', { name: 'Edit, as a new branch' }).nth(1).click();
  await page.fill('.editor textarea', 'Tell me a story.');
  await page.press('.editor textarea', 'Enter');
  await page.waitForFunction(() => document.querySelectorAll('.branches').length > 0);
  await finished(page);
  await say(page, 'What is my name?');
}

// Requests of other clients for a while; ends them when the returned function is called.
function keepBusy(url) {
  const abort = new AbortController();
  const ask = async (name) => {
    let messages = [];
    for (let i = 0; !abort.signal.aborted; i += 1) {
      if (i % 9 === 0) {
        messages = [{ role: 'system', content: 'You are a helpful assistant.' },
          { role: 'user', content: `My name is ${name} and I have ${i + 2} cats. Tell me a story.` }];
      }
      const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', signal: abort.signal,
        headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ messages }) });
      messages.push((await response.json()).choices[0].message, { role: 'user',
        content: ['Tell me another story.', 'What is my name?', 'Tell me a story about a bee.'][i % 3] });
      // An edit now and then.
      if (i % 9 === 6) messages.splice(-4, 2);
      await new Promise((resolve) => { setTimeout(resolve, 250); });
    }
  };
  const running = ['Nora', 'Ivo', 'Eva'].map((name) => ask(name).catch(() => {}));
  return async () => {
    abort.abort();
    await Promise.all(running);
  };
}

export async function takeScreenshots(browser, url, folder) {
  const shot = (page, name) => page.screenshot({ path: path.join(folder, `${name}.png`) });
  const page = await open(browser, url, { viewport: { width: 1060, height: 690 }, colorScheme: 'light' });
  const both = async (name) => {
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      await page.waitForTimeout(200);
      await shot(page, `${name}_${colorScheme}`);
    }
    await page.emulateMedia({ colorScheme: 'light' });
  };
  await converse(page);
  await page.waitForTimeout(11_000);  // saved by then
  await tab(page, 'conversations');
  await page.locator('.conversation-head').first().click();
  await page.waitForTimeout(3200);
  await both('conversations');
  await tab(page, 'about');
  await page.waitForSelector('.about-grid .card');
  await both('about');
  await tab(page, 'chat');
  await page.mouse.move(5, 400);
  await page.waitForTimeout(500);
  await both('chat');
  await tab(page, 'monitor');
  const stop = keepBusy(url);
  await page.waitForTimeout(25_000);
  await page.waitForFunction(() => /^[23] of/.test(document.querySelector('.monitor > header p').textContent));
  await both('monitor');
  await page.evaluate(() => {
    document.querySelector('#panel-monitor').scrollTop = document.querySelector('.plots').offsetTop - 70;
  });
  await page.waitForTimeout(1500);
  await both('monitor_plots');
  await stop();

  const phone = await open(browser, url, { viewport: { width: 390, height: 780 }, colorScheme: 'light',
    isMobile: true, hasTouch: true });
  await say(phone, 'Hello! My name is Marta and I live in Porto.');
  await say(phone, 'Tell me a story.');
  await phone.waitForTimeout(400);
  await shot(phone, 'chat_phone');
}
