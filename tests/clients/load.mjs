// Load: node load.mjs BINARY [SECONDS]. 32 connections send prompts of many kinds for SECONDS (default 60),
// and until 200 replies are whole, and cancel some at random moments. Every reply that is not cancelled is
// what it is alone, no error but 503 comes, and memory stays flat. The seed is printed.
import fs from 'node:fs';
import process from 'node:process';

import { check, finish, ready, start } from './harness.mjs';

const seconds = Number(process.argv[3] ?? 60);
const seed = Number(process.env.SEED ?? Date.now() % 1e9);
let state = seed;
const random = () => {  // mulberry32
  state = (state + 0x6D2B79F5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};
const pick = (list) => list[Math.floor(random() * list.length)];

// Short ones, long ones, some with a common beginning, some that go on from others.
const filler = (topic, n) => Array.from({ length: n }, (_, i) => `${i}. The ${topic} is in room ${i + 3}.`).join('\n');
const requests = [];
for (let i = 0; i < 40; i += 1) {
  const system = i % 4 === 0 ? [{ role: 'system', content: `You are a guide.\n${filler('guide', 20 + 30 * (i % 3))}` }] : [];
  const first = { role: 'user', content: `My favourite number is ${i}. ${i % 5 === 0 ? filler('key', 40) : ''} Remember it.` };
  const messages = i % 2 === 0 ? [...system, first]
    : [...system, first, { role: 'assistant', content: `OK, I will remember ${i}.` },
      { role: 'user', content: 'What is my favourite number?' }];
  requests.push({ messages, temperature: 0, max_tokens: 20 + 7 * (i % 9), ignore_eos: i % 3 === 0, stream: true });
}

async function send(url, request, signal) {
  const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', signal,
    headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(request) });
  if (response.status !== 200) return { status: response.status, text: await response.text() };
  const events = (await response.text()).split('\n\n').filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice(6)));
  const failed = events.find((event) => event.error);
  if (failed) return { status: failed.error.code ?? 500, text: JSON.stringify(failed) };
  return { status: 200, text: events.map((event) => event.choices[0]?.delta?.content ?? '').join('') };
}

const alone = start(['--store', 'off', '--slots', '1', '--draft', 'off', '--cache-ram', '0']);
const alone_url = await alone.listening;
await ready(alone_url);
const expected = [];
for (const request of requests) expected.push((await send(alone_url, request)).text);
alone.child.kill('SIGTERM');
await alone.exited;

const server = start(['--store', 'off', '--slots', '4', '--cache-ram', '32M']);
const url = await server.listening;
await ready(url);
const resident = () => Number(fs.readFileSync(`/proc/${server.child.pid}/status`, 'utf8')
  .match(/RssAnon:\s+(\d+)/)[1]) / 1024;

const counts = { done: 0, cancelled: 0, refused: 0 };
const wrong = [], errors = [];
const end = performance.now() + seconds * 1000;
// A slow machine takes longer for its 200 replies.
const goingOn = () => performance.now() < end || counts.done < 200;
async function client() {
  while (goingOn()) {
    const i = Math.floor(random() * requests.length);
    const abort = new AbortController();
    const timer = random() < 0.3 ? setTimeout(() => abort.abort(), random() * 1500) : null;
    try {
      const reply = await send(url, requests[i], abort.signal);
      if (reply.status === 503) {
        counts.refused += 1;
        await new Promise((resolve) => { setTimeout(resolve, 200 * random()); });
      } else if (reply.status !== 200) {
        errors.push(reply);
      } else {
        counts.done += 1;
        if (reply.text !== expected[i]) wrong.push({ i, got: reply.text, expected: expected[i] });
      }
    } catch (error) {
      if (error.name === 'AbortError') counts.cancelled += 1;
      else errors.push({ status: 0, text: String(error) });
    } finally {
      clearTimeout(timer);
    }
  }
}
const clients = Array.from({ length: 32 }, client);
const readings = [];
while (goingOn()) {
  await new Promise((resolve) => { setTimeout(resolve, Math.min(1000, seconds * 100)); });
  readings.push(resident());
}
await Promise.all(clients);

const part = Math.max(1, Math.floor(readings.length / 4));
const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;
const second = mean(readings.slice(part, 2 * part)), last = mean(readings.slice(-part));
console.log(`     seed ${seed}: ${counts.done} replies, ${counts.cancelled} cancelled, ${counts.refused} refused (503)`);
console.log(`     memory: ${second.toFixed(0)} MB in the second quarter, ${last.toFixed(0)} MB in the last`);
check('some are cancelled', counts.cancelled > 0, counts);
check('every reply is what it is alone', wrong.length === 0, wrong.slice(0, 3));
check('no error but 503', errors.length === 0, errors.slice(0, 3));
check('memory is flat', last < 1.1 * second + 16, readings.map(Math.round));
server.child.kill('SIGTERM');
check('the server ends cleanly', (await server.exited).code === 0);
finish();
