// The real binary with the demo model, by HTTP: node serve.mjs BINARY. Prints one line per check and
// ends with 1 when one fails. Expected replies are those of models/demo (greedy, float32 reference).
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

import { check, finish, ready, start } from './harness.mjs';

const post = (url, path, body, options = {}) => fetch(url + path, {
  method: 'POST', headers: { 'Content-Type': 'application/json', ...options.headers },
  body: typeof body === 'string' ? body : JSON.stringify(body), signal: options.signal });

async function events(response) {
  const text = await response.text();
  return text.split('\n\n').filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice(6)));
}

const weather = [{ type: 'function', function: { name: 'get_weather',
  description: 'Get the weather of a city', parameters: { type: 'object',
    properties: { city: { type: 'string' } }, required: ['city'] } } },
{ type: 'function', function: { name: 'get_time', description: 'Get the local time of a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } }];
const oslo = [{ role: 'user', content: 'What is the weather in Oslo?' }];

async function testReplies(url) {
  const models = await (await fetch(`${url}/v1/models`)).json();
  check('models names the demo model', models.data[0].id === 'holdfast-demo-Q4_K_M', models);

  const body = { messages: oslo, tools: weather };
  const reply = await (await post(url, '/v1/chat/completions', body)).json();
  const call = reply.choices?.[0]?.message?.tool_calls?.[0];
  check('a tool is called', call?.function?.name === 'get_weather' &&
    JSON.parse(call.function.arguments).city === 'Oslo', reply);
  check('finish_reason is tool_calls', reply.choices[0].finish_reason === 'tool_calls');
  check('the prompt is the reference\'s', reply.usage.prompt_tokens === 173, reply.usage);

  const next = { ...body, messages: [...oslo, reply.choices[0].message,
    { role: 'tool', tool_call_id: call.id, content: '{"temperature": 4, "condition": "cloudy"}' }] };
  const streamed = await events(await post(url, '/v1/chat/completions',
    { ...next, stream: true, stream_options: { include_usage: true } }));
  const text = streamed.map((event) => event.choices[0]?.delta?.content ?? '').join('');
  check('the tool\'s result is told', /cloudy/.test(text) && /Oslo/.test(text), text);
  const usage = streamed.at(-1).usage;
  check('the second prompt is the reference\'s', usage?.prompt_tokens === 223, streamed.at(-1));
  check('what was read is not read again', usage.prompt_tokens_details.cached_tokens >= 160, usage);
  const whole = await (await post(url, '/v1/chat/completions', next)).json();
  check('streamed and whole text are equal', whole.choices[0].message.content === text, whole);

  const completion = await (await post(url, '/v1/completions',
    { prompt: 'The file', max_tokens: 5, logprobs: 2 })).json();
  check('completions continue a prompt', completion.usage?.completion_tokens === 5 &&
    completion.choices[0].finish_reason === 'length' &&
    completion.choices[0].logprobs.tokens.length === 5, completion);

  const seeded = { messages: [{ role: 'user', content: 'Tell me a story.' }], temperature: 1.2,
    seed: 12345, max_tokens: 30 };
  const [first, second] = await Promise.all([1, 2].map(async () =>
    (await post(url, '/v1/chat/completions', seeded)).json()));
  check('the same seed gives the same text', first.seed === 12345 &&
    first.choices[0].message.content === second.choices[0].message.content, [first, second]);
}

async function testErrors(url) {
  const long = await post(url, '/v1/chat/completions',
    { messages: [{ role: 'user', content: 'word '.repeat(5000) }] });
  const error = (await long.json()).error;
  check('a prompt that is too long is a 400 with both numbers', long.status === 400 &&
    error.code === 'context_length_exceeded' && /2048/.test(error.message), error);
  const image = await post(url, '/v1/chat/completions', { messages: [{ role: 'user',
    content: [{ type: 'image_url', image_url: { url: 'http://127.0.0.1:1/x.png' } }] }] });
  check('an image is refused by name', image.status === 400 &&
    (await image.json()).error.param === 'messages[0].content[0].type');
  const bytes = await fetch(`${url}/v1/chat/completions`, { method: 'POST',
    body: Buffer.from('{"messages":[{"role":"user","content":"\xff"}]}', 'latin1') });
  check('invalid UTF-8 is refused', bytes.status === 400);
  check('an unknown path is a 404', (await fetch(`${url}/v2/x`)).status === 404);
  const rebinding = await new Promise((resolve) => {
    const socket = net.connect(Number(new URL(url).port), '127.0.0.1', () => {
      socket.write('GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n');
    });
    socket.once('data', (data) => { resolve(String(data)); socket.destroy(); });
  });
  check('another Host is refused', rebinding.startsWith('HTTP/1.1 403'), rebinding);
}

async function testCancelAndConcurrency(url) {
  const abort = new AbortController();
  const endless = { messages: [{ role: 'user', content: 'Tell me a story.' }], ignore_eos: true,
    stream: true };
  const response = await post(url, '/v1/chat/completions', endless, { signal: abort.signal });
  await response.body.getReader().read();
  abort.abort();
  // The slots are free again: more requests than slots finish although one was endless.
  const started = Date.now();
  const replies = await Promise.all(Array.from({ length: 12 }, async (_, i) => {
    const reply = await (await post(url, '/v1/chat/completions', { messages: [
      { role: 'user', content: `My name is Number${i}. What is my name?` }] })).json();
    return reply.choices?.[0]?.message?.content;
  }));
  check('twelve requests at once are answered', replies.every((text) => text?.length > 0), replies);
  console.log(`     in ${Date.now() - started} ms`);
}

// One request over TLS, with the certificate that the server was given.
function overTls(url, path, ca, headers = {}) {
  return new Promise((resolve, reject) => {
    https.get(url + path, { ca, headers, servername: 'localhost' }, (response) => {
      let body = '';
      response.on('data', (data) => { body += data; });
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body }));
    }).on('error', reject);
  });
}

async function testTlsAndCors() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-tls-'));
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) => path.join(folder, name));
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
    '-nodes', '-keyout', key, '-out', cert, '-days', '1', '-subj', '/CN=localhost',
    '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'], { stdio: 'ignore' });
  const page = 'https://chat.example';
  const server = start(['--tls-cert', cert, '--tls-key', key, '--cors-origin', page, '--store', 'off']);
  const url = await server.listening;
  check('the address is https', url.startsWith('https://'), url);
  const ca = fs.readFileSync(cert);
  for (let i = 0; i < 1200 && (await overTls(url, '/health', ca)).status !== 200; i += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const models = await overTls(url, '/v1/models', ca, { Origin: page });
  check('models over TLS, readable by a named page', models.status === 200 &&
    models.headers['access-control-allow-origin'] === page, models);
  const other = await overTls(url, '/v1/models', ca, { Origin: 'https://evil.example' });
  check('another page is refused and told nothing', other.status === 403 &&
    other.headers['access-control-allow-origin'] === undefined, other);
  server.child.kill('SIGTERM');
  check('SIGTERM ends with 0 over TLS', (await server.exited).code === 0);
  for (const [args, words] of [[['--tls-cert', cert], /--tls-key/],
    [['--tls-cert', cert, '--tls-key', cert], /--tls-key .*cert.pem/],
    [['--cors-origin', '*'], /--cors-origin/], [['--pin-billing-line', 'maybe'], /on or off/]]) {
    const refused = start(args);
    refused.listening.catch(() => {});
    const { code, err } = await refused.exited;
    check(`${args[0]} ${args.length} is refused in one line`, code === 1 && words.test(err()), err());
  }
  fs.rmSync(folder, { recursive: true });
}

async function testEnding(server, url) {
  const running = post(url, '/v1/chat/completions', { stream: true, ignore_eos: true,
    messages: [{ role: 'user', content: 'Tell me a story.' }] });
  const response = await running;
  const reading = response.text();
  server.child.kill('SIGTERM');
  const text = await reading;
  const { code, err } = await server.exited;
  check('SIGTERM ends with 0', code === 0, err());
  check('a running reply is told', /shutting down|"finish_reason":"length"/.test(text), text.slice(-500));
}

async function main() {
  const server = start(['--shutdown-timeout', '1']);
  const url = await server.listening;
  await ready(url);
  await testReplies(url);
  await testErrors(url);
  await testCancelAndConcurrency(url);
  await testEnding(server, url);

  const locked = start([], { HOLDFAST_API_KEY: 'secret' });
  const lockedUrl = await locked.listening;
  await ready(lockedUrl);
  check('a key is needed', (await fetch(`${lockedUrl}/v1/models`)).status === 401);
  check('the key opens', (await fetch(`${lockedUrl}/v1/models`,
    { headers: { Authorization: 'Bearer secret' } })).status === 200);
  locked.child.kill('SIGINT');
  check('SIGINT ends with 0', (await locked.exited).code === 0);

  const open = start(['--host', '0.0.0.0']);
  open.listening.catch(() => {});
  const refused = await open.exited;
  check('another address needs a key', refused.code === 1 && /--api-key/.test(refused.err()));
  await testTlsAndCors();
  const broken = start(['--model', '/nonexistent.gguf']);
  broken.listening.catch(() => {});
  const gone = await broken.exited;
  check('a missing model is one clear line', gone.code === 1 && /nonexistent/.test(gone.err()),
    gone.err());
}

await main();
finish();
