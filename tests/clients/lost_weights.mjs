// A file of weights that becomes shorter while it is served: no wrong token, an error, and an end
// that names it; what was said before is in the store. One that is written to while experts are read
// from it: an error that names it, and it is loaded anew.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { check, finish, ready, start } from './harness.mjs';

const demoModel = fileURLToPath(new URL('../../models/demo/holdfast-demo-Q4_K_M.gguf', import.meta.url));
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-lost-'));
const model = path.join(folder, 'model.gguf');
const args = ['--model', model, '--store', path.join(folder, 'store')];

const ask = (url, messages) => fetch(`${url}/v1/chat/completions`, { method: 'POST',
  headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ messages, max_tokens: 24 }) });

fs.copyFileSync(demoModel, model);
const server = start(args);
const url = await server.listening;
await ready(url);
const question = [{ role: 'user', content: 'Tell me a story about a harbour.' }];
const first = await (await ask(url, question)).json();
const followUp = [...question, first.choices[0].message, { role: 'user', content: 'And then?' }];

fs.truncateSync(model, Math.floor(fs.statSync(model).size / 2));
const failed = await ask(url, followUp);
const body = await failed.text();
check('the request fails', failed.status >= 500 && JSON.parse(body).error !== undefined, body);
const { code, signal, err, out } = await server.exited;
check('the server tries the file again, and ends', code === 1 && signal === null, { code, signal });
check('it names the file', (err() + out()).includes(`${model}: reading it has failed`), err());

fs.rmSync(model);
fs.copyFileSync(demoModel, model);
const again = start(args);
const urlAgain = await again.listening;
await ready(urlAgain);
const next = await (await ask(urlAgain, followUp)).json();
check('the conversation goes on from the store', next.reuse?.source === 'disk' &&
  next.reuse.tokens_reused >= first.usage.prompt_tokens, next);
again.child.kill('SIGTERM');
await again.exited;

const streaming = start([...args, '--expert-memory', '4M']);
let screen = '';
streaming.child.stdout.on('data', (data) => { screen += data; });
const urlStreaming = await streaming.listening;
await ready(urlStreaming);
const before = await (await ask(urlStreaming, followUp)).json();
fs.utimesSync(model, new Date(), new Date());
const touched = await ask(urlStreaming, question);
const why = await touched.text();
check('the request fails with the name of the file', touched.status >= 500 && why.includes('model.gguf'), why);
for (let i = 0; i < 600 && !/engine restarted 1/.test(screen); i += 1) {
  await new Promise((resolve) => { setTimeout(resolve, 100); });
}
check('it is loaded anew', /engine restarted 1/.test(screen), screen);
const after = await (await ask(urlStreaming, followUp)).json();
check('and gives the same reply', before.choices !== undefined &&
  after.choices?.[0].message.content === before.choices[0].message.content, after);
streaming.child.kill('SIGTERM');
await streaming.exited;
fs.rmSync(folder, { recursive: true });
finish();
