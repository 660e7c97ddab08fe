// The server, with a key when it wants one.

import { h } from './dom.js';
import { openDialog } from './dialogs.js';

const KEY = 'holdfast.key';

export class ApiFailure extends Error {
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

function storedKey() {
  try {
    return sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

let key = storedKey();
export const hasKey = () => key !== null;

function keep(value, remember) {
  key = value;
  try {
    localStorage.removeItem(KEY);
    sessionStorage.setItem(KEY, value);
    if (remember) localStorage.setItem(KEY, value);
  } catch { /* then only until the page is closed */ }
}

export function forgetKey() {
  key = null;
  try {
    localStorage.removeItem(KEY);
    sessionStorage.removeItem(KEY);
  } catch { /* nothing was kept */ }
}

let asking = null;
// One dialog for all the requests that wait for it.
function askForKey(wrong) {
  asking ??= openDialog('API key', (close) => {
    const input = h('input', { type: 'password', autofocus: true, autocomplete: 'off',
      name: 'api-key', required: true });
    const remember = h('input', { type: 'checkbox' });
    return h('form', { onsubmit: (event) => {
      event.preventDefault();
      if (input.value.trim() !== '') close({ value: input.value.trim(), remember: remember.checked });
    } },
    h('p', wrong ? 'The server did not accept this key.' : 'This server asks for a key. It is sent ' +
      'to this server only.'),
    h('label.field', h('span', 'Key'), input),
    h('label.check', remember, h('span', 'Keep it in this browser')),
    h('div.dialog-actions', h('button.button.primary', { type: 'submit' }, 'Use this key')));
  }).then((answer) => {
    asking = null;
    if (answer) keep(answer.value, answer.remember);
    return answer !== null;
  });
  return asking;
}

async function failureOf(response) {
  let message = `the server answered ${response.status}`, code;
  try {
    const body = await response.json();
    message = body.error?.message ?? message;
    code = body.error?.code;
  } catch { /* not ours */ }
  return new ApiFailure(message, response.status, code);
}

// A response that is OK. Throws ApiFailure, or AbortError.
export async function request(path, { method = 'GET', body, headers = {}, signal } = {}) {
  for (;;) {
    const sent = key;
    let response;
    try {
      response = await fetch(path, { method, body, signal, cache: 'no-store', headers: {
        ...headers, ...(key === null ? {} : { Authorization: `Bearer ${key}` }) } });
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new ApiFailure('the server does not answer', 0);
    }
    if (response.ok) return response;
    if (response.status !== 401) throw await failureOf(response);
    if (sent !== key) continue;  // somebody else has asked meanwhile
    if (!await askForKey(sent !== null)) throw await failureOf(response);
  }
}

export const get = async (path, options) => (await request(path, options)).json();

export const post = async (path, body, options) => (await request(path, { ...options, method: 'POST',
  headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body ?? {}) })).json();

export const del = async (path) => (await request(path, { method: 'DELETE' })).json();

// The data of server-sent events, parsed; ends with [DONE] or the stream.
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n\n');
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split('\n').filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5).trimStart()).join('\n');
      if (data === '[DONE]') return;
      if (data !== '') yield JSON.parse(data);
    }
  }
}
