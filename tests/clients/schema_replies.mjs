// Replies bound to random schemas, judged by ajv: node schema_replies.mjs BINARY [CASES [SEED]]. The real
// binary with the demo model, near-random sampling, four streams at once; once with guesses ahead
// and once without, which must say the same.
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

import { check, finish, ready, start } from './harness.mjs';
import { pick, rootSchema, some } from './random_schema.mjs';

const nCases = Number(process.argv[3] ?? 60);

async function reply(url, one) {
  const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST',
    body: JSON.stringify({ messages: [{ role: 'user', content: 'Give me some data.' }], max_tokens: 400,
      temperature: one.temperature, seed: one.seed,
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema: one.schema } } }) });
  const body = await response.json();
  return { status: response.status, text: body.choices?.[0].message.content, body,
    reason: body.choices?.[0].finish_reason };
}

async function replies(args, cases) {
  const server = start(['--store', 'off', '--slots', '4', ...args]);
  const url = await server.listening;
  await ready(url);
  const all = [];
  let next = 0;
  await Promise.all(some(4, async () => {
    while (next < cases.length) {
      const i = next;
      next += 1;
      all[i] = await reply(url, cases[i]);
    }
  }));
  server.child.kill('SIGTERM');
  await server.exited;
  return all;
}

const mtp = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../models/demo/holdfast-demo-mtp.gguf');
const cases = some(nCases, (i) => ({ schema: rootSchema(), seed: i, temperature: pick(0, 0.7, 2, 1000) }));
const plain = await replies(['--draft', '0'], cases);
const guessed = await replies(['--mtp', mtp, '--draft', '3'], cases);

const ajv = new Ajv2020({ strict: false });
addFormats(ajv);
let nEnded = 0;
const wrong = [], refused = [];
cases.forEach((one, i) => {
  const { status, text, reason, body } = plain[i];
  if (status !== 200) return refused.push([one.schema, body]);
  if (reason !== 'stop') return undefined;  // cut at max_tokens
  nEnded += 1;
  try {
    if (ajv.validate(one.schema, JSON.parse(text))) return undefined;
    return wrong.push([one, text, ajv.errorsText()]);
  } catch (error) {
    return wrong.push([one, text, String(error)]);
  }
});
check('every schema is taken', refused.length === 0, refused[0]);
check('every reply that ends is valid', wrong.length === 0, wrong[0]);
check(`most replies end (${nEnded} of ${nCases})`, nEnded >= nCases / 2);
const differs = cases.findIndex((_, i) => plain[i].text !== guessed[i].text);
check('guesses change nothing', differs < 0, [cases[differs], plain[differs]?.text, guessed[differs]?.text]);
const drafted = guessed.reduce((n, { body }) => n + (body.timings?.draft_n ?? 0), 0);
check(`guesses were made (${drafted})`, drafted > 0);
finish();
