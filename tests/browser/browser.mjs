// What the page's tests share: Chromium, pages that watch for errors and for requests to elsewhere,
// and steps that people make.
import fs from 'node:fs';
import process from 'node:process';

import { chromium } from 'playwright-core';

import { check } from '../clients/harness.mjs';

const CHROMIUM = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome'].find((path) => fs.existsSync(path));

// Without its sandbox, which a container's root cannot have.
export const launch = () => chromium.launch({ executablePath: CHROMIUM,
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] });

// A page of its own storage. `page.problems`: errors of the console and of scripts.
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 },
    acceptDownloads: true, permissions: ['clipboard-read', 'clipboard-write'], ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  page.problems = [];
  page.expected = [];  // patterns of errors that a test means to happen
  const problem = (text) => {
    if (!page.expected.some((pattern) => pattern.test(text))) page.problems.push(text);
  };
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) problem(message.text());
  });
  page.on('pageerror', (error) => problem(String(error.stack)));
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('blob:')) {
      problem(`a request to ${request.url()}`);
    }
  });
  await page.goto(url);
  return page;
}

export async function close(page, name) {
  check(`${name}: no errors, nothing from elsewhere`, page.problems.length === 0, page.problems);
  await page.context().close();
}

export const tab = async (page, name) => {
  await page.click(`#tab-${name}`);
  await page.waitForSelector(`#panel-${name}:not([hidden])`);
};

export const finished = (page) =>
  page.waitForSelector('#panel-chat .send:not(.stopping)');

// Sends a message and waits for the end of the reply.
export async function say(page, text) {
  const before = await page.locator('.message').count();
  await page.fill('.composer textarea', text);
  await page.press('.composer textarea', 'Enter');
  await page.waitForFunction((n) => document.querySelectorAll('.message').length >= n, before + 2);
  await finished(page);
  return page.locator('.message').last().locator('> .markdown').innerText();
}

// Sets what the next requests of the page are asked with, beside what the page says.
export const askWith = (page, extra) => page.route('**/v1/chat/completions', (route) =>
  route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ...extra }) }));

// Replies as the server would stream them: chunks of deltas.
export const answerWith = (page, deltas) => page.route('**/v1/chat/completions', (route) => {
  const chunk = (body) => `data: ${JSON.stringify(body)}\n\n`;
  const reuse = { source: 'disk', tokens_reused: 90, tokens_read: 10, tokens_known: 96, restore_ms: 12.5,
    first_difference: 96, reason: 'differs <i>there</i>', limit: 'no_checkpoint', conversation: 'conv_a' };
  return route.fulfill({ contentType: 'text/event-stream', body: `${deltas.map((delta) =>
    chunk({ choices: [{ index: 0, delta, finish_reason: null }] })).join('')}${chunk({
    choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], reuse, conversation: 'conv_b', seed: 7,
    timings: { prompt_ms: 20, prompt_per_second: 500, predicted_n: 5, predicted_ms: 50,
      predicted_per_second: 100, queue_ms: 0 } })}data: [DONE]\n\n` });
});
