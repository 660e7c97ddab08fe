// node compare.mjs RENDER: renders every case with every template by @huggingface/jinja, by RENDER
// (our interpreter) and from expected.json, and fails where they differ. With --write it writes
// expected.json from @huggingface/jinja instead; review the difference.
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(join(here, '../clients/package.json'));
const { Template } = require('@huggingface/jinja');

const templates = readdirSync(here).filter((name) => name.endsWith('.jinja')).sort();
const cases = JSON.parse(readFileSync(join(here, 'cases.json'), 'utf8'));
const tokens = { bos_token: '<s>', eos_token: '</s>' };

// Arguments that come as a string are an object to templates.
function withParsedArguments(messages) {
  const copy = structuredClone(messages);
  for (const message of copy) {
    for (const call of message.tool_calls ?? []) {
      if (typeof call.function.arguments === 'string') {
        call.function.arguments = JSON.parse(call.function.arguments);
      }
    }
  }
  return copy;
}

function renderByNpm(source, test) {
  const variables = {
    ...tokens,
    ...test.extra,
    messages: withParsedArguments(test.messages),
    tools: test.tools ?? null,
    add_generation_prompt: test.add_generation_prompt ?? true,
  };
  if ('enable_thinking' in test) variables.enable_thinking = test.enable_thinking;
  try {
    return { text: new Template(source).render(variables) };
  } catch (error) {
    return { error: String(error) };
  }
}

const requests = [];
for (const name of templates) {
  const source = readFileSync(join(here, name), 'utf8');
  for (const test of cases) {
    requests.push({ label: `${name}: ${test.name}`, template: source, ...tokens, ...test });
  }
}
const byNpm = requests.map((request) => renderByNpm(request.template, request));
const outcome = (result) => ('text' in result ? result.text : null); // null: an error
const file = join(here, 'expected.json');
if (process.argv.includes('--write')) {
  const all = Object.fromEntries(requests.map(({ label }, i) => [label, outcome(byNpm[i])]));
  writeFileSync(file, JSON.stringify(all, null, 1) + '\n');
} else {
  const expected = JSON.parse(readFileSync(file, 'utf8'));
  const ours = JSON.parse(
    execFileSync(process.argv[2], { input: JSON.stringify(requests), maxBuffer: 1 << 28 }),
  );
  let bad = 0;
  requests.forEach(({ label }, i) => {
    if (outcome(byNpm[i]) === outcome(ours[i]) && outcome(ours[i]) === expected[label]) return;
    bad += 1;
    console.error(`${label}\n npm:      ${JSON.stringify(byNpm[i])}\n ours:     ` +
      `${JSON.stringify(ours[i])}\n expected: ${JSON.stringify(expected[label])}`);
  });
  console.log(`${requests.length} renderings, ${bad} differ`);
  process.exit(bad === 0 && requests.length >= 60 ? 0 : 1);
}
