// `holdfast sessions` of the real binary, with a running server and with the store alone: node
// sessions.mjs BINARY. Prints one line per check and ends with 1 when one fails.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { check, finish, ready, start } from './harness.mjs';

const binary = process.argv[2];
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-sessions-'));
const store = path.join(folder, 'store'), other = path.join(folder, 'other');
const file = path.join(folder, 'talk.hfs');

const run = (args) => new Promise((resolve) => {
  execFile(binary, ['sessions', ...args], (error, out, err) => {
    resolve({ code: error ? error.code : 0, out, err });
  });
});
async function succeeds(name, args) {
  const { code, out, err } = await run(args);
  check(name, code === 0, { args, code, out, err });
  return out;
}
async function fails(name, args, text) {
  const { code, out, err } = await run(args);
  check(name, code !== 0 && text.test(err), { args, code, out, err });
}
const chat = async (url, messages) => (await fetch(`${url}/v1/chat/completions`, { method: 'POST',
  headers: { 'Content-Type': 'application/json', 'X-Holdfast-Conversation': 'talk' },
  body: JSON.stringify({ messages, max_tokens: 12 }) })).json();
async function serve(dir, args = []) {
  const server = start(['--store', dir, '--autosave', 'off', ...args]);
  const url = await server.listening;
  await ready(url);
  return { url, stop: async () => { server.child.kill('SIGTERM'); await server.exited; } };
}

const hello = { role: 'user', content: 'My name is Marta and I live in Porto.' };
const question = { role: 'user', content: 'What is my name?' };

// One server: everything that can be done to a running one.
let server = await serve(store);
let at = ['--server', server.url];
const first = await chat(server.url, [hello]);
const durable = async () => JSON.parse(await succeeds('list', [...at, 'list']))
  .find((c) => c.id === 'talk')?.durable_tokens;
check('nothing is saved before it is asked for', await durable() === 0);
await succeeds('save', [...at, 'save', 'talk']);
check('a saved conversation is durable', await durable() > 20);
await fails('save of what is not there', [...at, 'save', 'none'], /none/);
check('show names states', JSON.parse(await succeeds('show', [...at, 'show', 'talk'])).states.length > 0);
await succeeds('pin', [...at, 'pin', 'talk']);
await succeeds('unpin', [...at, 'unpin', 'talk']);
await succeeds('fork', [...at, 'fork', 'talk', 'copy']);
await succeeds('rm', [...at, 'rm', 'copy']);
await succeeds('du', [...at, 'du']);
await succeeds('gc', [...at, 'gc']);
await succeeds('verify', [...at, 'verify']);
await succeeds('save under a name', [...at, 'save', 'talk', 'kept.hfs']);
const kept = JSON.parse(await succeeds('restore of it', [...at, 'restore', 'kept.hfs']));
check('what is there stays', kept.id === 'talk' && kept.notes.length === 1, kept);
await fails('restore of what is not there', [...at, 'restore', 'none'], /no session file none/);
await succeeds('export', [...at, 'export', 'talk', file]);
check('an export leaves one file', fs.readdirSync(folder).sort().join() === 'store,talk.hfs');
await fails('export of what is not there', [...at, 'export', 'none', `${file}2`], /none/);
check('a failed export leaves none', !fs.existsSync(`${file}2`) && !fs.existsSync(`${file}2.part`));
const again = JSON.parse(await succeeds('import of what is there', [...at, 'import', file]));
check('is said', again.id === 'talk' && again.notes.length === 1, again);
await fails('the store of a running server is left alone', ['--store', store, 'list'], /--server URL/);
await fails('no such server', ['--server', 'http://127.0.0.1:1', 'list'], /no server answers/);
await fails('no such URL', ['--server', 'localhost', 'list'], /http:\/\/HOST:PORT/);
const longer = [hello, first.choices[0].message, question];
const here = await chat(server.url, longer);
await server.stop();

// The same bytes by the store alone.
await succeeds('list of the store', ['--store', store, 'list']);
await succeeds('verify of the store', ['--store', store, 'verify']);
await succeeds('import into a new store', ['--store', other, 'import', file, '--as', 'talk']);
await succeeds('export of it', ['--store', other, 'export', 'talk', `${file}.again`]);

// A server that never saw the conversation goes on with it.
fs.rmSync(other, { recursive: true });
server = await serve(other);
at = ['--server', server.url];
const imported = JSON.parse(await succeeds('import into another server', [...at, 'import', file]));
check('it keeps its id', imported.id === 'talk' && imported.notes.length === 0, imported);
const there = await chat(server.url, longer);
check('it is not read again', there.reuse.source === 'disk' &&
  there.reuse.tokens_reused >= imported.n_computed, there.reuse);
check('the reply is the same', there.choices[0].message.content === here.choices[0].message.content,
  [here.choices[0].message, there.choices[0].message]);

// Refusals, each with its own text, by the real thing.
const bytes = fs.readFileSync(file);
const damaged = (change) => {
  const copy = Buffer.from(bytes);
  fs.writeFileSync(`${file}.bad`, change(copy) ?? copy);
  return [...at, 'import', `${file}.bad`, '--as', 'bad'];
};
await fails('truncated', damaged((b) => b.subarray(0, b.length - 1)), /truncated/);
await fails('flipped bit', damaged((b) => { b[b.length >> 1] ^= 1; }), /checksum/);
await fails('newer version', damaged((b) => { b[8] = 9; }), /version 9, this holdfast reads up to 1/);
await fails('no session', damaged(() => Buffer.from('hello')), /not a holdfast session file/);
await fails('taken id', [...at, 'import', file, '--as', 'talk'], /in the store already/);
await server.stop();
server = await serve(path.join(folder, 'third'), ['--kv', 'f16']);
await fails('another KV format', ['--server', server.url, 'import', file], /another KV format: int8/);
await server.stop();

fs.rmSync(folder, { recursive: true });
finish();
