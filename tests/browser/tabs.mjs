// Conversations, Monitor and About.
import fs from 'node:fs';

import { check } from '../clients/harness.mjs';
import { close, open, say, tab } from './browser.mjs';

const row = (page, name) => page.locator('.conversation', { hasText: name });

async function conversationOf(page) {
  await page.locator('.message.assistant .reuse summary').last().click();
  return page.locator('.message.assistant .reuse dl a').last().innerText();
}

// The file of an exported conversation.
async function exported(page, opened) {
  const download = page.waitForEvent('download');
  await opened.getByRole('button', { name: 'Export' }).click();
  const file = await (await download).path();
  check('a conversation is exported', fs.statSync(file).size > 100_000);
  return file;
}

export async function testConversations(browser, url) {
  const page = await open(browser, url);
  await say(page, 'My name is Nora and I live in Bergen.');
  await say(page, 'Where do I live?');
  const id = await conversationOf(page);
  await page.locator('.message.assistant .reuse dl a').last().click();
  await page.waitForSelector('.conversation.opened');
  const opened = page.locator('.conversation.opened');
  check('a reply leads to its conversation', (await opened.innerText()).includes(id));
  check('it has the chat\'s title', (await opened.innerText()).includes('My name is Nora'));
  check('checkpoints are on its line', await opened.locator('.timeline .mark').count() >= 2);
  await page.waitForFunction(() => /1 request/.test(document.querySelector('.uses')?.textContent));
  check('it says what it was reused for', /not read again/.test(await opened.locator('.uses').innerText()));

  const listed = async (name = id) => (await (await fetch(`${url}/v1/conversations`)).json()).data
    .find((c) => c.id === name);
  await opened.getByRole('button', { name: 'Pin', exact: true }).click();
  await opened.getByRole('button', { name: 'Unpin' }).waitFor();
  check('a conversation is pinned', (await listed()).pinned === true);
  await opened.getByRole('button', { name: 'Save' }).click();
  await page.waitForSelector('.conversation.opened .timeline .durable');
  check('a conversation is saved', (await listed()).durable_tokens === (await listed()).n_tokens);

  await opened.getByRole('button', { name: 'Fork' }).click();
  await page.fill('dialog input', 'nora-2');
  await page.press('dialog input', 'Enter');
  await row(page, 'nora-2').waitFor();
  check('a conversation is forked', (await listed('nora-2'))?.n_tokens === (await listed()).n_tokens);

  const file = await exported(page, opened);

  await row(page, 'nora-2').locator('.conversation-head').click();
  await page.locator('.conversation.opened', { hasText: 'nora-2' }).getByRole('button', { name: 'Delete' }).click();
  await page.locator('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.waitForFunction(() => !document.querySelector('.conversations').textContent.includes('nora-2'));
  check('a conversation is deleted', await listed('nora-2') === undefined);

  await row(page, id).locator('.conversation-head').click();
  await page.locator('.conversation.opened', { hasText: id }).getByRole('button', { name: 'Delete' }).click();
  await page.locator('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.waitForFunction((name) => !document.querySelector('.conversations').textContent.includes(name), id);
  await page.setInputFiles('input[type=file]', { name: 'nora.hfs',
    mimeType: 'application/octet-stream', buffer: fs.readFileSync(file) });
  await row(page, id).waitFor();
  check('what was exported is imported again', (await listed())?.durable_tokens > 0);
  await page.fill('.toolbar input', 'no such thing');
  check('the search finds nothing', await page.locator('.conversation').count() === 0 &&
    await page.getByText('None of them fits.').isVisible());
  await close(page, 'conversations');
}

export async function testMonitor(browser, url) {
  const page = await open(browser, url);
  await tab(page, 'monitor');
  const abort = new AbortController();
  const long = fetch(`${url}/v1/chat/completions`, { method: 'POST', signal: abort.signal,
    headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ stream: true, ignore_eos: true,
      messages: [{ role: 'user', content: 'Tell me a long story.' }] }) })
    .then((response) => response.text()).catch(() => {});
  await page.waitForFunction(() => /tok\/s/.test(document.querySelector('.slots')?.textContent));
  check('a busy slot is shown', /1 of \d+ slots busy/.test(await page.locator('.monitor > header').innerText()));
  const line = () => page.locator('.plot .line.source-live').first().getAttribute('d');
  await page.waitForFunction(() => (document.querySelector('.plot .line.source-live')
    ?.getAttribute('d') ?? '').includes('L'));
  const first = await line();
  await page.waitForFunction((d) => document.querySelector('.plot .line.source-live')
    .getAttribute('d').length > d.length, first);
  check('the plots move', (await line()).length > first.length);
  check('a step takes time', /\d/.test(await page.locator('.readout').nth(1).innerText()));
  abort.abort();
  await long;
  const { last_request: last } = await (await fetch(`${url}/v1/status`)).json();
  await page.waitForFunction(() => /^0 of/.test(document.querySelector('.monitor > header p').textContent));
  await page.waitForFunction((n) => document.querySelector('.chosen')?.textContent
    .includes(`Request ${n},`), last);
  check('the request is in the list, with its reason', await page.locator('td.reason').first().innerText() !== '');
  check('the memory plan is shown', /Weights/.test(await page.locator('.page.monitor').innerText()));
  const host = await page.getByText('Host now').locator('xpath=following-sibling::ul[1]').innerText();
  check('the host is shown', /Available [\d.]+ [GM]iB/.test(host), host);

  await page.locator('.request-bar').first().focus();
  const chosen = await page.locator('.chosen p').first().innerText();
  check('a bar tells of its request', !chosen.startsWith(`Request ${last},`), chosen);

  // What is not known is not shown as if it were.
  await page.route('**/v1/status*', async (route) => {
    const status = await (await route.fetch()).json();
    status.host = { total_bytes: null, available_bytes: null, resident_bytes: null, limited_by: 'nothing' };
    status.store = null;
    await route.fulfill({ json: status });
  });
  await page.waitForFunction(() => /Host now\s*Unknown/.test(document.querySelector('.page.monitor').innerText));
  check('no store is said', await page.getByText('Nothing is kept on disk.').isVisible());
  await page.unroute('**/v1/status*');
  await page.route('**/v1/status*', (route) => route.abort());
  page.expected.push(/ERR_FAILED/);
  await page.waitForSelector('#banner.error:not([hidden])');
  check('a server that is gone is not shown as if it were there', /Not known/
    .test(await page.locator('.monitor > header p').innerText()) &&
    await page.locator('.card', { hasText: 'Unknown' }).count() >= 4);
  await close(page, 'monitor');
}

export async function testAbout(browser, url) {
  const page = await open(browser, url);
  await tab(page, 'about');
  await page.waitForSelector('.about-grid .card');
  const text = await page.locator('#panel-about').innerText();
  check('the model and the kernels are named', text.includes('holdfast-demo-Q4_K_M') &&
    /Kernel set\s+\w+/.test(text));
  check('a setting says where it came from', /--ctx\s+2048\s+flag/.test(text), text);
  for (const client of ['curl', 'openai', 'anthropic', 'Claude Code', 'Codex', 'Cline', 'OpenCode', 'Continue',
    'Open WebUI']) {
    await page.getByRole('tab', { name: client, exact: true }).click();
    await page.locator('#snippet').getByRole('button', { name: 'Copy the code' }).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    check(`${client} is told this address`, copied.includes(url.replace(/\/$/, '')), copied);
  }
  await close(page, 'about');
}
