// A step that does not end: its requests are told, the server begins anew under the same process id
// and port, and conversations go on from the store. Needs a server whose steps hang on demand.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { check, finish, ready, start } from './harness.mjs';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-stuck-'));
const hang = path.join(folder, 'hang');
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const post = (url, body, options = {}) => fetch(`${url}/v1/chat/completions`, { method: 'POST',
  headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body), ...options });

// The answer of a server that may be restarting: asks again while it is loading, and when its
// connection was among those that the restart closed.
async function reply(url, body) {
  for (let i = 0; i < 600; i += 1) {
    const response = await post(url, body).catch((error) => {
      if (!['ECONNRESET', 'UND_ERR_SOCKET'].includes(error.cause?.code)) throw error;
    });
    if (response && response.status !== 503) return response.json();
    await response?.text();
    await sleep(50);
  }
  throw new Error('the server did not come back');
}

async function metric(url, name) {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(text.match(new RegExp(`^${name} (\\S+)`, 'm'))?.[1]);
}

const system = { role: 'system', content: 'You help with a note. ' + 'It is about the harbour. '.repeat(40) };
const user = (content) => ({ role: 'user', content });
const assistant = (content) => ({ role: 'assistant', content });

// Turns of two conversations, of which nothing has been saved when a third hangs.
async function testRestart() {
  const server = start(['--store', path.join(folder, 'store'), '--autosave', 'off',
    '--stall-timeout', '2', '--hang', hang]);
  const url = await server.listening;
  await ready(url);
  const pid = server.child.pid;
  const chats = [];
  for (const text of ['What is the note about?', 'Tell me a story.']) {
    const messages = [system, user(text)];
    const first = await reply(url, { messages, max_tokens: 24 });
    const { content } = first.choices[0].message;
    chats.push({ first, messages: [...messages, assistant(content), user('And then?')] });
  }
  check('no restart yet', await metric(url, 'holdfast_engine_restarts_total') === 0);

  // The second turn of the first conversation hangs, streamed; the other waits beside it.
  fs.writeFileSync(hang, '');
  const response = await post(url, { messages: chats[0].messages, max_tokens: 24, stream: true });
  const whole = post(url, { messages: [user('Hello!')], max_tokens: 4 });
  const idle = fetch(`${url}/health`);
  check('health answers beside a stuck step', (await idle).status === 200);
  const text = await response.text();
  check('a stream is told in an event', /"error":.*no progress/.test(text) && /\[DONE\]/.test(text), text);
  const failed = await whole;
  check('a whole reply is told by its status', failed.status >= 500, failed.status);
  const during = await fetch(`${url}/health`).then((r) => r.status, (error) => String(error.cause?.code));
  check('the port stays open', [200, 503, 'ECONNRESET', 'UND_ERR_SOCKET'].includes(during), during);

  for (const { first, messages } of chats) {
    const next = await reply(url, { messages, max_tokens: 24 });
    const kept = first.usage.prompt_tokens;
    check('the follow-up is read from the store', next.reuse?.source === 'disk' &&
      next.reuse.tokens_reused >= kept, { kept, reuse: next.reuse });
  }
  check('the process is the same', server.child.exitCode === null && server.child.pid === pid);
  check('the restart is counted', await metric(url, 'holdfast_engine_restarts_total') === 1);
  const health = await (await fetch(`${url}/health`)).json();
  check('health tells of it', health.status === 'ok' && health.engine_restarts === 1, health);
  const listing = fs.readdirSync(`/proc/${pid}/fd`).map((fd) => {
    try { return fs.readlinkSync(`/proc/${pid}/fd/${fd}`); } catch { return ''; }
  });
  check('no connection of before is left open', listing.filter((to) => to.startsWith('socket:')).length < 8,
    listing);
  server.child.kill('SIGTERM');
  const { code, err, out } = await server.exited;
  check('SIGTERM ends it with 0 after a restart', code === 0, err());
  check('threads were described', /restarting the engine/.test(err() + out()) &&
    /engine: in a step/.test(err() + out()), err() + out());
}

async function testBound() {
  const server = start(['--store', 'off', '--stall-timeout', '1', '--stall-restarts', '1', '--hang', hang]);
  const url = await server.listening;
  for (let i = 0; i < 2; i += 1) {
    await ready(url);
    fs.writeFileSync(hang, '');
    await post(url, { messages: [user('Hello!')], max_tokens: 4 }).catch(() => {});
    if (i === 0) {
      for (let k = 0; k < 600 && (await fetch(`${url}/health`).then((r) => r.json(), () => ({})))
        .engine_restarts !== 1; k += 1) await sleep(50);
    }
  }
  const { code, signal, err, out } = await server.exited;
  check('beyond the restarts of an hour it ends', code === 1 && signal === null, { code, signal });
  check('and says why', /--stall-restarts/.test(err() + out()), err());
}

await testRestart();
await testBound();
fs.rmSync(folder, { recursive: true });
finish();
