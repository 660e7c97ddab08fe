// 2,000 idle and slow connections beside 16 streams: node crowd.mjs BINARY. The streams' replies are what
// they are alone, memory stays bounded, new clients are served, slow headers and slow readers are cut off,
// and a slow reader's conversation is kept.
import fs from 'node:fs';
import net from 'node:net';

import { check, finish, ready, start } from './harness.mjs';

const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
const server = start(['--store', 'off', '--slots', '4', '--ctx', '8192']);
const url = await server.listening;
await ready(url);
const { hostname, port } = new URL(url);

const post = (body) => fetch(`${url}/v1/chat/completions`, { method: 'POST',
  headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
const body = (i) => ({ stream: true, temperature: 0, max_tokens: 120, ignore_eos: true,
  messages: [{ role: 'user', content: `My favourite number is ${i}. Tell me a story.` }] });
async function reply(i) {
  const begin = performance.now();
  const response = await post(body(i));
  const text = (await response.text()).split('\n\n').filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice(6)).choices[0]?.delta?.content ?? '').join('');
  return { text, ms: performance.now() - begin };
}
const sixteen = () => Promise.all(Array.from({ length: 16 }, (_, i) => reply(i)));
const residentMb = () => Number(fs.readFileSync(`/proc/${server.child.pid}/status`, 'utf8')
  .match(/RssAnon:\s+(\d+)/)[1]) / 1024;
const slowest = (replies) => Math.max(...replies.map((r) => r.ms));

const alone = await sixteen();
const before = residentMb();

// Half say nothing, half say their header a byte at a time.
const crowd = [];
let closed = 0;
for (let i = 0; i < 2000; i += 1) {
  const socket = net.connect({ host: hostname, port: Number(port) });
  socket.on('error', () => {});
  socket.on('close', () => { closed += 1; });
  crowd.push(socket);
  if (i % 100 === 99) await sleep(10);
}
await Promise.all(crowd.map((socket) => socket.connecting
  ? new Promise((resolve) => { socket.once('connect', resolve); socket.once('close', resolve); }) : null));
check('2,000 connections are open', crowd.length - closed === 2000, closed);
const header = 'POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ';
let at = 0;
const trickle = setInterval(() => {
  for (let i = 0; i < 1000; i += 1) {
    if (!crowd[i].destroyed) crowd[i].write(header[at] ?? 'x');
  }
  at += 1;
}, 500);

const beside = await sixteen();
check('replies are the same beside them', beside.every((r, i) => r.text === alone[i].text && r.text !== ''),
  beside.map((r) => r.text.slice(0, 40)));
console.log(`     slowest of 16: ${slowest(alone).toFixed(0)} ms alone, ${slowest(beside).toFixed(0)} ms beside`);
const grown = residentMb() - before;
check('they take less than 100 MB', grown < 100, grown);
console.log(`     memory: ${before.toFixed(0)} MB, ${grown.toFixed(1)} MB more with the crowd`);
check('a new client is served', (await fetch(`${url}/health`)).status === 200);

// Slow headers have 15 s from their first byte.
for (let i = 0; i < 300 && closed < 1000; i += 1) await sleep(100);
clearInterval(trickle);
check('slow headers are cut off', closed >= 1000, closed);
check('who is merely idle stays', crowd.slice(1000).filter((socket) => !socket.destroyed).length === 1000,
  closed);
for (const socket of crowd) socket.destroy();

// A client that reads nothing: its reply waits up to a limit, and what was said is kept.
const long = JSON.stringify({ ...body(77), max_tokens: 6000, logprobs: true, top_logprobs: 20 });
const slow = net.connect({ host: hostname, port: Number(port) });
slow.pause();
slow.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n` +
  `Content-Length: ${Buffer.byteLength(long)}\r\n\r\n${long}`);
let kept = [];
for (let i = 0; i < 600; i += 1) {
  await sleep(100);
  const slots = await (await fetch(`${url}/slots`)).json();
  kept = (await (await fetch(`${url}/v1/conversations`)).json()).data;
  if (i > 5 && slots.every((slot) => !slot.is_processing)) break;
}
// Of its 6,000 tokens those that the limit of waiting text let through; the prompts before had 120.
const longest = Math.max(0, ...kept.map((conversation) => conversation.n_tokens));
console.log(`     the reply to a client that reads nothing ended after ${longest} tokens`);
check('a slow reader\'s reply ends at the limit and is kept', longest > 300 && longest < 6000, kept);
slow.destroy();

server.child.kill('SIGTERM');
check('the server ends cleanly', (await server.exited).code === 0);
finish();
