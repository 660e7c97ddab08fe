// Texts of random schemas, judged by ajv: node schema.mjs WALK [CASES [SEED]]. WALK walks at random
// through the grammar that a schema compiles to (tests/schema/walk_main.cc).
import { execFileSync } from 'node:child_process';
import process from 'node:process';

import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

import { check, finish } from './harness.mjs';
import { rootSchema, some } from './random_schema.mjs';

const nCases = Number(process.argv[3] ?? 300);
const schemas = some(nCases, rootSchema);
const texts = execFileSync(process.argv[2], { input: `${schemas.map((one) => JSON.stringify(one)).join('\n')}\n`,
  maxBuffer: 1 << 28 }).toString().trim().split('\n').map((line) => JSON.parse(line));
const ajv = new Ajv2020({ strict: false });
addFormats(ajv);
const refused = [], wrong = [];
let nEnded = 0;
schemas.forEach((one, i) => {
  const { error, ended, text } = texts[i];
  if (error) refused.push([one, error]);
  if (error || !ended) return;
  nEnded += 1;
  try {
    if (!ajv.validate(one, JSON.parse(text))) wrong.push([one, text, ajv.errorsText()]);
  } catch (problem) {
    wrong.push([one, text, String(problem)]);
  }
});
check('every schema is taken', refused.length === 0, refused[0]);
check('every text is valid', wrong.length === 0, wrong[0]);
check(`most texts end (${nEnded} of ${nCases})`, nEnded > nCases / 2);
finish();
