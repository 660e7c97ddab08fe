// The Chat tab.
import { check } from '../clients/harness.mjs';
import { answerWith, askWith, close, finished, open, say, tab } from './browser.mjs';

const WEATHER = JSON.stringify([{ name: 'get_weather', description: 'Get the weather of a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } }]);

const texts = (page, selector) => page.locator(selector).allInnerTexts();
const lastReuse = (page) => page.locator('.message.assistant').last().locator('.reuse');
const status = async (url) => (await fetch(`${url}/v1/status`)).json();

export async function testReplies(browser, url) {
  const page = await open(browser, url);
  const hello = await say(page, 'Hello! My name is Marta and I live in Porto.');
  check('a reply is shown', hello.length > 5, hello);
  check('a first prompt is new', /All of it is new|read again/.test(await lastReuse(page).innerText()));
  const name = await say(page, 'What is my name?');
  check('the model remembers', name.includes('Marta'), name);

  const shown = await lastReuse(page).innerText();
  const { reuse } = (await status(url)).requests.at(-1);
  check('what was reused is shown', shown.includes(`${reuse.tokens_reused} tokens`) &&
    shown.includes('Nothing read again.') && reuse.source === 'live', { shown, reuse });
  check('why not more is shown', shown.toLowerCase().includes(reuse.reason.toLowerCase()), shown);
  await page.locator('.message.assistant').last().getByRole('button', { name: 'Copy' }).click();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  check('a reply is copied', copied.trim() === name.trim(), copied);

  const before = await texts(page, '.message');
  await page.reload();
  await page.waitForSelector('.message');
  check('a reload keeps the conversation', JSON.stringify(await texts(page, '.message')) ===
    JSON.stringify(before), { before, after: await texts(page, '.message') });
  check('the list names it', (await texts(page, '.chat-list .title'))[0].startsWith('Hello! My name'));
  await page.waitForSelector('.chat-list .place.ram');
  await lastReuse(page).locator('summary').click();
  check('timings unfold', /tok\/s/.test(await lastReuse(page).locator('dl').innerText()));
  await close(page, 'replies');
}

export async function testBranches(browser, url) {
  const page = await open(browser, url);
  await say(page, 'My name is Lena. What is my name?');
  await page.hover('.message.user');
  await page.getByRole('button', { name: 'Edit, as a new branch' }).click();
  await page.fill('.editor textarea', 'My name is Olga. What is my name?');
  await page.press('.editor textarea', 'Enter');
  await page.waitForFunction(() => /Olga/.test(document.querySelector('.bubble')?.textContent));
  await finished(page);
  const reply = () => page.locator('.message.assistant > .markdown').innerText();
  const edited = await reply();
  check('an edit is answered anew', edited.includes('Olga'), edited);
  check('an edit is a branch', (await page.locator('.message.user .branches').innerText()).includes('2 of 2'));
  await page.hover('.message.user');
  await page.getByRole('button', { name: 'Earlier version' }).click();
  const old = await reply();
  check('the earlier branch is still there', old.includes('Lena'), old);

  await page.getByRole('button', { name: 'Another reply, as a new branch' }).click();
  await page.waitForSelector('.message.assistant .branches');
  await finished(page);
  check('a retry is a branch', (await page.locator('.message.assistant .branches').innerText())
    .includes('2 of 2'));
  check('and, without a temperature, the same', (await reply()) === old, await reply());
  await page.reload();
  await page.waitForSelector('.message');
  check('branches are kept', (await page.locator('.message.assistant .branches').innerText())
    .includes('2 of 2'));
  await close(page, 'branches');
}

export async function testStop(browser, url) {
  const page = await open(browser, url);
  await askWith(page, { ignore_eos: true });
  await page.fill('.composer textarea', 'Tell me a story.');
  await page.press('.composer textarea', 'Enter');
  await page.waitForFunction(() => document.querySelector('.message.assistant > .markdown')
    ?.textContent.length > 20);
  check('text comes while it is made', await page.locator('.send.stopping').count() === 1);
  await page.getByRole('button', { name: 'Stop the reply' }).click();
  await finished(page);
  check('a stopped reply says so', (await page.locator('.message-error').innerText()).startsWith('Stopped.'));
  await page.waitForSelector('.message.assistant .reuse details');
  const reuse = await lastReuse(page).innerText();
  check('and still what was reused', /\d new/.test(reuse), reuse);
  const length = (await page.locator('.message.assistant > .markdown').innerText()).length;
  let slots = 1;
  for (let i = 0; i < 50 && slots > 0; i += 1) slots = (await status(url)).slots.length;
  check('the server has stopped too', slots === 0);
  check('nothing comes after the end', (await page.locator('.message.assistant > .markdown').innerText())
    .length === length);

  await page.unroute('**/v1/chat/completions');
  await say(page, 'My name is Ana.');
  check('a chat goes on after a stop', /reused/.test(await lastReuse(page).innerText()));
  await askWith(page, { ignore_eos: true });
  await page.fill('.composer textarea', 'Tell me a story.');
  await page.press('.composer textarea', 'Enter');
  await page.waitForSelector('.send.stopping');
  await page.keyboard.press('Escape');
  await finished(page);
  await close(page, 'stop');
}

export async function testToolsAndThinking(browser, url) {
  const page = await open(browser, url);
  await page.getByRole('button', { name: 'Settings of this chat' }).click();
  await page.selectOption('select[name=effort]', 'high');
  await page.fill('textarea[name=tools]', '[{');
  check('tools that are no JSON are refused', /Not used/.test(await page.locator('.field-error').innerText()));
  await page.fill('textarea[name=tools]', WEATHER);
  await page.fill('input[name=seed]', '5');
  await page.getByRole('button', { name: 'Close the settings' }).click();
  await say(page, 'What is the weather in Oslo?');
  const thinking = page.locator('.thinking').first();
  check('thinking is folded', !await thinking.locator('.markdown').isVisible() &&
    /Thought for/.test(await thinking.innerText()));
  await thinking.locator('summary').click();
  check('and unfolds', (await thinking.locator('.markdown').innerText()).length > 3);
  const call = await page.locator('.tool-call').innerText();
  check('a tool call is shown', call.includes('get_weather') && call.includes('Oslo'), call);
  await page.getByLabel('Result of get_weather').fill('{"temperature": 4, "condition": "cloudy"}');
  await page.getByRole('button', { name: 'Send the result' }).click();
  await page.waitForSelector('.message.tool');
  await finished(page);
  const answer = await page.locator('.message.assistant').last().locator('> .markdown').innerText();
  check('the tool\'s result is told', /cloudy/.test(answer) && /Oslo/.test(answer), answer);
  check('the history was not read again', /Nothing read again|Only the last/
    .test(await lastReuse(page).innerText()), await lastReuse(page).innerText());
  await close(page, 'tools and thinking');
}

// Whatever a model writes stays text.
export async function testHostileText(browser, url) {
  const page = await open(browser, url);
  const hostile = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\n\n' +
    '[click](javascript:window.hacked=1) ![p](https://evil.example/p.png) [ok](https://good.example/)\n\n' +
    '```html\n<script>window.hacked=1</script>\n```\n\n| a | b |\n|---|---|\n| <b>x</b> | **y** |\n\n- one\n- two';
  await answerWith(page, [{ role: 'assistant', content: '' }, { reasoning_content: '<b>hm</b>' },
    ...hostile.match(/[\s\S]{1,7}/g).map((content) => ({ content })),
    { tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: '<i>f</i>', arguments: '{"x":' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '"<u>"}' } }] }]);
  await page.fill('.composer textarea', '<img src=x onerror="window.hacked=1">');
  await page.press('.composer textarea', 'Enter');
  await page.waitForSelector('.reuse details');
  await page.waitForTimeout(100);
  const made = await page.evaluate(() => ({ hacked: window.hacked ?? null,
    bad: document.querySelectorAll('.messages img, .messages script, .messages b:not(.reuse b), .messages i:not(.reuse i, .dots i), .messages u').length,
    links: [...document.querySelectorAll('.messages .markdown a')].map((a) => a.href),
    rel: document.querySelector('.messages .markdown a')?.rel }));
  check('nothing of it runs or becomes an element', made.hacked === null && made.bad === 0, made);
  check('only safe links are links', JSON.stringify(made.links) ===
    JSON.stringify(['https://evil.example/p.png', 'https://good.example/']) && /noopener/.test(made.rel), made);
  const message = page.locator('.message.assistant');
  check('code is highlighted', await message.locator('.code-block .tok-s').count() > 0);
  check('tables and lists are made', await message.locator('td strong').innerText() === 'y' &&
    await message.locator('.markdown li').count() === 2);
  check('arguments in pieces are put together', /"x": "<u>"/.test(await message.locator('.tool-call').innerText()));
  const reuse = await lastReuse(page).innerText();
  check('a restore from disk is told', /90%/.test(reuse) && /disk in 13 ms/.test(reuse) &&
    /6 tokens read again/.test(reuse) && /4 new/.test(reuse), reuse);
  await close(page, 'hostile text');
}

export async function testChats(browser, url) {
  const page = await open(browser, url);
  await say(page, 'My name is Ivo.');
  await page.getByRole('button', { name: 'New chat' }).click();
  await say(page, 'My name is Eva.');
  await page.waitForFunction(() => document.querySelectorAll('.chat-list li').length === 2);
  await page.locator('.chat-list .open').nth(1).click();
  await page.waitForFunction(() => /Ivo/.test(document.querySelector('.bubble')?.textContent));
  const row = page.locator('.chat-list li').nth(1);
  await row.hover();
  await row.getByRole('button', { name: 'Rename' }).click();
  await page.fill('dialog input', 'Ivo\'s chat');
  await page.press('dialog input', 'Enter');
  await page.waitForFunction(() => document.querySelector('.chat-title').textContent === 'Ivo\'s chat');
  const download = page.waitForEvent('download');
  await row.hover();
  await row.getByRole('button', { name: 'Download' }).click();
  check('a chat is downloaded as Markdown', (await download).suggestedFilename() === 'Ivo-s-chat.md');
  await row.hover();
  await row.getByRole('button', { name: 'Delete' }).click();
  await page.locator('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.waitForFunction(() => document.querySelectorAll('.chat-list li').length === 1);
  check('a deleted chat is gone', !(await page.locator('.chat-list').innerText()).includes('Ivo'));

  // By keyboard alone.
  await page.focus('#tab-chat');
  await page.keyboard.press('ArrowRight');
  await page.waitForSelector('#panel-conversations:not([hidden])');
  check('arrows move between the tabs', await page.evaluate(() => document.activeElement.id) ===
    'tab-conversations');
  await page.keyboard.press('Home');
  await page.waitForSelector('#panel-chat:not([hidden])');
  await tab(page, 'about');
  await page.goBack();
  check('the browser\'s back button goes back', await page.locator('#panel-chat').isVisible());
  await close(page, 'chats');
}
