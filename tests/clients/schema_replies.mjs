// Replies bound to random schemas, judged by ajv: node schema_replies.mjs BINARY [CASES [SEED]]. The real
// binary with the demo model, near-random sampling, four streams at once; once with guesses ahead
// and once without, which must say the same.
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

import { check, finish, ready, start } from './harness.mjs';

const nCases = Number(process.argv[3] ?? 60);
const seed = Number(process.argv[4] ?? Math.floor(Math.random() * 2 ** 31));
console.log(`seed ${seed}`);

// mulberry32
let state = seed;
function random(n) {
  state = (state + 0x6D2B79F5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) % n;
}
const pick = (...values) => values[random(values.length)];
const some = (n, make) => Array.from({ length: n }, (_, i) => make(i));

function stringSchema() {
  return pick(
    () => ({ type: 'string', maxLength: 1 + random(30) }),
    () => ({ type: 'string', minLength: 3 + random(5), maxLength: 8 + random(8) }),
    () => ({ type: 'string', pattern: pick('^[a-z]{2,8}$', '^\\d{3}-[A-F]+\\.$', '^(a|bc)*d?$', '^[^"\\\\]{1,9}$',
      '^\\w+ \\S{0,4}$', '^(é|ü|[Α-Ω]){1,5}$') }),
    () => ({ type: 'string', format: pick('date', 'time', 'date-time', 'uuid', 'ipv4', 'email', 'hostname', 'uri') }),
    () => ({ enum: some(1 + random(4), (i) => pick('red', '"quoted"', 'two\nlines', 'über', `n${i}`)) }))();
}

function numberSchema() {
  const low = random(2000) - 1000;
  return pick(
    () => ({ type: 'integer' }),
    () => ({ type: 'number' }),
    () => ({ type: 'integer', minimum: low, maximum: low + random(500) }),
    () => ({ type: 'integer', exclusiveMinimum: low }),
    () => ({ type: 'number', minimum: low / 8, maximum: low / 8 + random(9) }),
    () => ({ type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 }),
    () => ({ const: pick(0, -1, 2.5, null, true, [1, 'x'], { a: {} }) }))();
}

function schema(depth) {
  if (depth === 0 || random(4) === 0) {
    return pick(stringSchema, numberSchema, () => ({ type: pick('boolean', 'null', ['integer', 'null']) }))();
  }
  return pick(
    () => {
      const names = pick(['a', 'b', 'c'], ['name', 'naïve "key"', 'n'], ['x', 'xy', 'xyz', '']);
      const object = { type: 'object',
        properties: Object.fromEntries(names.map((name) => [name, schema(depth - 1)])) };
      if (random(4) > 0) object.required = names.filter(() => random(2) === 0);
      if (random(3) > 0) object.additionalProperties = pick(false, () => schema(0));
      if (typeof object.additionalProperties === 'function') {
        object.additionalProperties = object.additionalProperties();
      }
      return object;
    },
    () => ({ type: 'array', items: schema(depth - 1), maxItems: 1 + random(4), minItems: random(2) }),
    () => ({ type: 'array', prefixItems: some(2, () => schema(depth - 1)), items: false, minItems: random(3) }),
    () => ({ anyOf: some(2 + random(2), () => schema(depth - 1)) }),
    () => ({ oneOf: [stringSchema(), { type: 'object', properties: { kind: { const: 'k' }, v: schema(depth - 1) },
      required: ['kind'] }, { type: 'object', properties: { kind: { enum: ['l', 'm'] } }, required: ['kind'] }]
      .map((one) => (one.enum ? { type: 'string', ...one } : one)) }))();
}

function rootSchema() {
  if (random(4) > 0) return schema(1 + random(3));
  return { $defs: { tree: { type: 'object', properties: { v: schema(1),
    kids: { type: 'array', items: { $ref: '#/$defs/tree' }, maxItems: 2 } }, required: ['v'] } },
  $ref: '#/$defs/tree' };
}

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
