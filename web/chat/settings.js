// What a chat asks the model with: fields, checks, and the request's body.

import { get } from '../lib/api.js';
import { h } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { load, store } from '../lib/storage.js';

const LAST = 'holdfast.chat-settings';

const NUMBERS = [
  { name: 'temperature', label: 'Temperature', min: 0, max: 1000, step: 'any',
    hint: '0 picks the best token' },
  { name: 'top_k', label: 'Top-k', min: -1, step: 1, hint: '0: all tokens' },
  { name: 'top_p', label: 'Top-p', min: 0, max: 1, step: 'any', hint: 'fewest tokens that reach it' },
  { name: 'min_p', label: 'Min-p', min: 0, max: 1, step: 'any', hint: 'share of the best one' },
  { name: 'repeat_penalty', label: 'Repeat penalty', min: 0.001, max: 1000, step: 'any',
    hint: '1: none' },
  { name: 'max_tokens', label: 'Tokens at most', min: -1, step: 1, hint: 'no limit', nullable: true },
  { name: 'seed', label: 'Seed', step: 1, hint: 'a random one', nullable: true },
];
const EFFORTS = [['', 'As the model does'], ['off', 'Off'], ['low', 'Low'], ['medium', 'Medium'],
  ['high', 'High']];

export const lastSettings = () => load(LAST, {});

// Tools as the API takes them; throws with what is wrong.
export function parseTools(text) {
  if (!text?.trim()) return null;
  const tools = JSON.parse(text);
  if (!Array.isArray(tools)) throw new Error('an array of tools is wanted: [{ … }]');
  return tools.map((tool) => (tool.type === 'function' ? tool : { type: 'function', function: tool }));
}

export function requestBody(messages, settings) {
  const body = { messages, stream: true, return_progress: true };
  for (const { name } of NUMBERS) {
    if (settings[name] !== undefined && settings[name] !== '') body[name] = Number(settings[name]);
  }
  if (settings.effort) body.reasoning_effort = settings.effort;
  const tools = parseTools(settings.tools);
  if (tools) body.tools = tools;
  return body;
}

async function serverDefaults() {
  try {
    return (await get('props')).default_generation_settings.params;
  } catch {
    return {};
  }
}

function numberField(field, settings, changed) {
  const input = h('input', { type: 'number', inputmode: 'decimal', step: field.step, min: field.min,
    max: field.max, value: settings[field.name] ?? '', name: field.name, title: field.hint,
    placeholder: field.nullable ? field.hint : '' });
  input.addEventListener('input', () => {
    const valid = input.checkValidity();
    input.setAttribute('aria-invalid', String(!valid));
    if (!valid) return;
    if (input.value === '') delete settings[field.name];
    else settings[field.name] = input.value;
    changed();
  });
  return [h('label.field', h('span', field.label), input), input];
}

const TOOL_EXAMPLE = `[{ "name": "get_weather",
  "description": "Get the weather of a city",
  "parameters": { "type": "object",
    "properties": { "city": { "type": "string" } },
    "required": ["city"] } }]`;

// The panel beside the chat. `changed` is called after every change that can be used.
export function settingsPanel(settings, { changed, close }) {
  const keep = () => {
    const { system, tools, ...rest } = settings;  // those belong to one chat
    store(LAST, rest);
    changed();
  };
  const system = h('textarea', { rows: 5, value: settings.system ?? '', name: 'system',
    placeholder: 'Who the model is and how it answers' });
  system.addEventListener('input', () => { settings.system = system.value; keep(); });

  const effort = h('select', { name: 'effort' }, EFFORTS.map(([value, label]) =>
    h('option', { value, selected: (settings.effort ?? '') === value }, label)));
  effort.addEventListener('change', () => { settings.effort = effort.value; keep(); });

  const toolsError = h('p.field-error.small', { role: 'alert' });
  const tools = h('textarea.mono', { rows: 6, value: settings.tools ?? '', placeholder: TOOL_EXAMPLE,
    spellcheck: 'false', name: 'tools' });
  tools.addEventListener('input', () => {
    try {
      parseTools(tools.value);
      settings.tools = tools.value;
      toolsError.textContent = '';
      keep();
    } catch (error) {
      toolsError.textContent = `Not used: ${error.message}`;
    }
    tools.setAttribute('aria-invalid', String(toolsError.textContent !== ''));
  });

  const numbers = NUMBERS.map((field) => numberField(field, settings, keep));
  serverDefaults().then((defaults) => NUMBERS.forEach((field, i) => {
    if (defaults[field.name] === undefined) return;
    // As the model was trained: three digits are what a person set.
    numbers[i][1].placeholder = Number(defaults[field.name].toPrecision(4));
  }));

  return h('aside.chat-settings', { 'aria-label': 'Settings of this chat' },
    h('header', h('h2', 'Settings'), h('button.icon-button', { type: 'button',
      'aria-label': 'Close the settings', onclick: close }, icon('close'))),
    h('div.fields',
      h('label.field', h('span', 'System prompt'), system),
      h('label.field', h('span', 'Thinking'), effort),
      h('div.pair', numbers.map(([label]) => label)),
      h('label.field', h('span', 'Tools, as JSON'), tools), toolsError,
      h('p.muted.small', 'An empty field leaves the choice to the server. Changing the system prompt ' +
        'or the tools changes the beginning of the prompt, so the next reply reads it again.')));
}
