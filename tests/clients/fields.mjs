// Every field of a request that the official SDKs know is named in docs/http_api.md, as used, ignored or
// refused: node fields.mjs. The SDKs' own type definitions say which there are.
import fs from 'node:fs';

import { check, finish } from './harness.mjs';

const read = (name) => fs.readFileSync(new URL(name, import.meta.url), 'utf8');
const sections = Object.fromEntries(read('../../docs/http_api.md').split('\n## ')
  .map((section) => [section.split('\n')[0], section]));
const chat = sections['POST /v1/chat/completions'];
const messages = sections['POST /v1/messages'];
const responses = sections['POST /v1/responses'];

// The fields of an interface, those of objects within it not counted.
function fieldsOf(file, name) {
  const text = read(`node_modules/${file}`);
  const start = text.search(new RegExp(`interface ${name}\\b[^{]*\\{`));
  if (start < 0) return null;
  const lines = text.slice(text.indexOf('{', start) + 1).replace(/\/\*\*[\s\S]*?\*\//g, '').split('\n');
  const fields = [];
  let depth = 0;
  for (const line of lines) {
    const field = /^\s*'?([A-Za-z_][\w-]*)'?\??:/.exec(line);
    if (depth === 0 && field) fields.push(field[1]);
    depth += line.split('{').length - line.split('}').length;
    if (depth < 0) break;
  }
  return fields;
}

const anthropic = '@anthropic-ai/sdk/resources/messages/messages.d.ts';
const beta = '@anthropic-ai/sdk/resources/beta/messages/messages.d.ts';
const openai = 'openai/resources/chat/completions/completions.d.ts';
for (const [section, file, ...names] of [
  [chat, openai, 'ChatCompletionCreateParamsBase', 'ChatCompletionUserMessageParam', 'ChatCompletionToolMessageParam',
    'ChatCompletionAssistantMessageParam', 'ChatCompletionStreamOptions'],
  [chat + sections['POST /v1/completions'], 'openai/resources/completions.d.ts', 'CompletionCreateParamsBase'],
  [responses, 'openai/resources/responses/responses.d.ts', 'ResponseCreateParamsBase'],
  [responses, 'openai/resources/responses/input-tokens.d.ts', 'InputTokenCountParams'],
  [messages, anthropic, 'MessageCreateParamsBase', 'MessageCountTokensParams', 'Tool', 'TextBlockParam',
    'ToolResultBlockParam', 'ToolUseBlockParam', 'DocumentBlockParam', 'ThinkingConfigEnabled', 'OutputConfig'],
  [messages, beta, 'MessageCreateParamsBase', 'MessageCountTokensParams', 'BetaTool', 'BetaOutputConfig',
    'BetaThinkingConfigEnabled', 'BetaThinkingConfigAdaptive']]) {
  const code = section.split('`').filter((_, i) => i % 2 === 1).join('\n');
  for (const name of names) {
    const fields = fieldsOf(file, name);
    const missing = fields?.filter((field) => !new RegExp(`\\b${field}\\b`).test(code));
    check(`${name}: ${fields?.length} fields are documented`, fields?.length > 1 && missing.length === 0, missing);
  }
}
finish();
