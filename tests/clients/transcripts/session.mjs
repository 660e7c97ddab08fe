// One client's talk with the server, turn by turn: what each prompt shares with what was there before,
// as the client's own history tells, against what the server says it reused.

const post = (url, path, body, headers = {}) => fetch(url + path, {
  method: 'POST', headers: { 'Content-Type': 'application/json', ...headers },
  body: JSON.stringify(body) });

async function serverSentEvents(response, path) {
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${text}`);
  return text.split('\n\n').flatMap((event) => event.split('\n'))
    .filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
}

// A stated bound: of P shared tokens at most max(one turn, 2,048, P/2) are read again.
const boundOf = (shared, turn) => Math.max(turn, 2048, shared / 2);

export class Session {
  // `restart`: ends the server and starts it again, its conversations on disk; returns its address.
  constructor(name, url, restart) {
    Object.assign(this, { name, url, restart, rows: [], failures: [] });
  }

  // kind: first, extend, drop (whole turns), edit, compact, again, date (changed once more), side. shared: tokens that this
  // prompt has in common with earlier ones; turn: those of its longest turn (for the bound).
  async turn(kind, shared, usage, turn = 0) {
    if (![shared, turn, ...Object.values(usage)].every(Number.isFinite)) {
      throw new Error(`${this.name}: not numbers: ${JSON.stringify({ kind, shared, turn, usage })}`);
    }
    const row = { n: this.rows.length + 1, kind, prompt: usage.prompt, shared, reused: usage.cached,
      read: usage.prompt - usage.cached, reply: usage.reply };
    this.rows.push(row);
    const again = shared - usage.cached;
    const strict = ['extend', 'drop', 'again', 'date'].includes(kind);
    if (strict && usage.cached < 0.99 * shared) this.failures.push({ ...row, gate: '99 % of shared' });
    if ((kind === 'edit' || kind === 'compact') && again > boundOf(shared, turn)) {
      this.failures.push({ ...row, gate: `at most ${boundOf(shared, turn)} again` });
    }
    if (this.restart) this.url = await this.restart();
    return usage;
  }

  // The requests, each as its clients send it. All return the reply and usage in the same words.

  async anthropic(body) {
    const path = '/v1/messages?beta=true';
    const events = await serverSentEvents(await post(this.url, path, { ...body, stream: true },
      { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'claude-code-20250219', 'x-api-key': 'x' }), path);
    const content = [], usage = {};
    for (const event of events) {
      if (event.type === 'error') throw new Error(JSON.stringify(event));
      if (event.type === 'message_start') Object.assign(usage, event.message.usage);
      if (event.type === 'message_delta') Object.assign(usage, event.usage);
      if (event.type === 'content_block_start') content[event.index] = { ...event.content_block, json: '' };
      const delta = event.delta, block = content[event.index];
      if (event.type !== 'content_block_delta') continue;
      if (delta.type === 'text_delta') block.text += delta.text;
      if (delta.type === 'thinking_delta') block.thinking += delta.thinking;
      if (delta.type === 'signature_delta') block.signature = delta.signature;
      if (delta.type === 'input_json_delta') block.json += delta.partial_json;
    }
    for (const block of content) {
      if (block.type === 'tool_use') block.input = block.json === '' ? {} : JSON.parse(block.json);
      delete block.json;
    }
    const cached = usage.cache_read_input_tokens ?? 0;
    return { content, usage: { cached, reply: usage.output_tokens,
      prompt: usage.input_tokens + cached + (usage.cache_creation_input_tokens ?? 0) } };
  }

  async countTokens(body) {
    const response = await post(this.url, '/v1/messages/count_tokens?beta=true', body);
    return (await response.json()).input_tokens;
  }

  async chat(body) {
    const path = '/v1/chat/completions';
    const events = await serverSentEvents(await post(this.url, path, { ...body, stream: true,
      stream_options: { include_usage: true } }, { Authorization: 'Bearer x' }), path);
    const message = { role: 'assistant', content: '' };
    let usage = null;
    for (const event of events) {
      if (event.error) throw new Error(JSON.stringify(event));
      usage = event.usage ?? usage;
      const delta = event.choices[0]?.delta ?? {};
      message.content += delta.content ?? '';
      for (const call of delta.tool_calls ?? []) {
        message.tool_calls ??= [];
        const whole = message.tool_calls[call.index] ??= { id: call.id, type: 'function',
          function: { name: call.function.name, arguments: '' } };
        whole.function.arguments += call.function.arguments ?? '';
      }
    }
    return { message, usage: { prompt: usage.prompt_tokens, reply: usage.completion_tokens,
      cached: usage.prompt_tokens_details.cached_tokens } };
  }

  // As background calls are made: in one piece.
  async chatInOnePiece(body) {
    const response = await post(this.url, '/v1/chat/completions', { ...body, stream: false });
    if (response.status !== 200) throw new Error(await response.text());
    const { choices, usage } = await response.json();
    return { message: choices[0].message, usage: { prompt: usage.prompt_tokens,
      reply: usage.completion_tokens, cached: usage.prompt_tokens_details.cached_tokens } };
  }

  async responses(body) {
    const path = '/v1/responses';
    const events = await serverSentEvents(
      await post(this.url, path, { ...body, stream: true, store: false }), path);
    const last = events.at(-1);
    if (!['response.completed', 'response.incomplete'].includes(last?.type)) {
      throw new Error(`${path}: ended with ${JSON.stringify(last)}`);
    }
    const { usage } = last.response;
    return { output: last.response.output, usage: { prompt: usage.input_tokens,
      reply: usage.output_tokens, cached: usage.input_tokens_details.cached_tokens } };
  }

  async completion(body) {
    const response = await post(this.url, '/v1/completions', body);
    if (response.status !== 200) throw new Error(await response.text());
    const { usage } = await response.json();
    return { usage: { prompt: usage.prompt_tokens, reply: usage.completion_tokens,
      cached: usage.prompt_tokens_details?.cached_tokens ?? 0 } };
  }

  print() {
    console.log(`\n${this.name}`);
    console.log('turn  kind     prompt  shared  reused    read   reply');
    for (const r of this.rows) {
      console.log([String(r.n).padStart(4), r.kind.padEnd(7), ...[r.prompt, r.shared, r.reused, r.read,
        r.reply].map((v) => String(v).padStart(6))].join('  '));
    }
  }
}

// A page of plain text that is the same in every run, about `words` words.
export function page(topic, words) {
  const verbs = ['reads', 'keeps', 'checks', 'writes', 'moves', 'counts', 'finds', 'sends'];
  const things = ['file', 'folder', 'name', 'line', 'list', 'test', 'page', 'note', 'table'];
  let text = '';
  for (let i = 0; i * 9 < words; i += 1) {
    text += `${i + 1}. The ${topic} ${verbs[i % 8]} the ${things[(i * 5) % 9]} and ` +
      `${verbs[(i * 3 + 1) % 8]} ${i + 2}.\n`;
  }
  return text;
}

// What a person asks, in turn: some of it makes the model call a tool.
const cities = ['Oslo', 'Rome', 'Paris', 'Lisbon', 'Berlin', 'Madrid', 'Vienna', 'Athens'];
export function question(i) {
  if (i % 3 === 0) return `What is the weather in ${cities[i % 8]}?`;
  if (i % 3 === 1) return `My favourite number is ${i + 3}. Remember it.`;
  return 'What is my favourite number?';
}

export const cityTool = (name, description) => ({ name, description, parameters: { type: 'object',
  properties: { city: { type: 'string' } }, required: ['city'] } });
