// JSON schemas at random, of what the server takes.
import process from 'node:process';

// mulberry32, seeded by the fourth argument (printed).
let state = Number(process.argv[4] ?? Math.floor(Math.random() * 2 ** 31));
console.log(`seed ${state}`);
export function random(n) {
  state = (state + 0x6D2B79F5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) % n;
}
export const pick = (...values) => values[random(values.length)];
export const some = (n, make) => Array.from({ length: n }, (_, i) => make(i));

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
    () => ({ type: pick('integer', 'number'), multipleOf: pick(2, 7, 10, 25, 64, 360, 1000) }),
    () => ({ type: 'number', multipleOf: pick(0.5, 0.25, 0.125, 1.5), minimum: low / 8, maximum: low / 8 + 20 }),
    () => ({ type: 'integer', minimum: low, maximum: low + 900, multipleOf: pick(3, 8, 40, 100) }),
    () => ({ const: pick(0, -1, 2.5, null, true, [1, 'x'], { a: {} }) }))();
}

// Values that no two are the same of.
function differingItems() {
  const words = ['a', 'b', 'ab', '', 'ü', 'c"', 'seven', '8', 'nine', 'ten'];
  const values = words.slice(0, 1 + random(words.length));
  return { type: 'array', uniqueItems: true, minItems: random(2 + Math.min(values.length - 1, 2)),
    items: pick({ enum: values }, { type: ['boolean', 'null'] }, { enum: values }) };
}

// An object in parts that must all hold.
function partsOfAnObject(depth) {
  const closed = random(3) === 0;
  return { allOf: [
    { type: 'object', properties: { a: schema(depth - 1), b: { type: 'integer' } }, required: ['b'] },
    { type: 'object', properties: { b: { multipleOf: 3, minimum: -50 }, ...(closed ? {} : { c: schema(depth - 1) }) },
      ...(closed ? { patternProperties: { '^a$': true }, additionalProperties: false } : {}) },
    pick({ properties: { b: { maximum: 80 } } }, { required: ['a'] }, { maxLength: 3 })] };
}

function byPattern(depth) {
  const object = { type: 'object', properties: { ab: { type: 'integer' }, other: schema(depth - 1) },
    patternProperties: { '^a': pick({ minimum: 3 }, { type: ['integer', 'string'], maxLength: 5 }), '\\d$': schema(0) } };
  delete object.properties[pick('ab', 'other', 'none')];
  if (random(2) === 0) object.additionalProperties = pick(false, { type: 'null' });
  return object;
}

function combined(depth) {
  return pick(
    () => ({ type: 'string', allOf: [{ pattern: '^[a-f]' }, { pattern: '[x-z]$' }, { minLength: 2, maxLength: 9 }] }),
    () => ({ type: 'object', properties: { a: schema(depth - 1), b: { type: 'null' } },
      anyOf: [{ required: ['a'] }, { required: ['b'] }] }),
    () => ({ allOf: [{ type: 'array', items: { type: 'string', maxLength: 9 }, maxItems: 3 }, { minItems: 1 },
      { prefixItems: [{ minLength: 2 }, { pattern: '^x' }] }] }),
    () => ({ allOf: [{ enum: ['a', 'b', 1, 2, null] }, { enum: [2, 'b', 'x', 1] }, { minimum: 2 }] }),
    () => partsOfAnObject(depth))();
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
    () => differingItems(), () => byPattern(depth), () => combined(depth),
    () => ({ oneOf: [stringSchema(), { type: 'object', properties: { kind: { const: 'k' }, v: schema(depth - 1) },
      required: ['kind'] }, { type: 'object', properties: { kind: { enum: ['l', 'm'] } }, required: ['kind'] }]
      .map((one) => (one.enum ? { type: 'string', ...one } : one)) }))();
}

export function rootSchema() {
  if (random(4) > 0) return schema(1 + random(3));
  return { $defs: { tree: { type: 'object', properties: { v: schema(1),
    kids: { type: 'array', items: { $ref: '#/$defs/tree' }, maxItems: 2 } }, required: ['v'] } },
  $ref: '#/$defs/tree' };
}
