// Anthropic's official SDK against the real binary with the demo model: node anthropic.mjs BINARY.
import Anthropic from '@anthropic-ai/sdk';

import { check, errorOf, finish, ready, start } from './harness.mjs';

const tools = ['get_weather', 'get_time'].map((name) => ({ name,
  description: `Get the ${name === 'get_time' ? 'local time' : 'weather'} of a city`,
  input_schema: { type: 'object', properties: { city: { type: 'string' } },
    required: ['city'] } }));
const story = { model: 'claude-any', max_tokens: 40,
  messages: [{ role: 'user', content: 'Tell me a story.' }] };

async function testPlain(client) {
  const models = await client.models.list();
  check('models are listed', models.data[0]?.id === 'holdfast-demo-Q4_K_M' &&
    models.data[0].type === 'model' && !Number.isNaN(Date.parse(models.data[0].created_at)), models);
  const body = { model: 'claude-any', max_tokens: 60, system: 'You are a helpful assistant.',
    messages: [{ role: 'user', content: 'My name is Ada. Remember it.' }] };
  const reply = await client.messages.create(body);
  check('a message is answered', reply.type === 'message' && reply.content[0]?.type === 'text' &&
    reply.content[0].text.length > 0 && reply.stop_reason === 'end_turn', reply);
  check('the request has an id', /^req-/.test(reply._request_id), reply._request_id);
  const count = await client.messages.countTokens({ model: body.model, system: body.system,
    messages: body.messages });
  const { usage } = reply;
  check('tokens are counted as they are read', count.input_tokens === usage.input_tokens +
    usage.cache_read_input_tokens + usage.cache_creation_input_tokens, { count, usage });

  const next = { ...body, messages: [...body.messages,
    { role: 'assistant', content: reply.content },
    { role: 'user', content: 'What is my name?' }] };
  const second = await client.beta.messages.create({ ...next, betas: ['context-1m-2025-08-07'] });
  check('the conversation is remembered', /Ada/.test(second.content[0].text), second);
  check('what was read is not read again',
    second.usage.cache_read_input_tokens >= count.input_tokens + usage.output_tokens - 8,
    [usage, second.usage]);
  const last = { type: 'text', text: 'What is my name?', cache_control: { type: 'ephemeral' } };
  const marked = await client.messages.create({ ...next, messages: [...next.messages.slice(0, -1),
    { role: 'user', content: [{ ...last, text: 'Now what is my name?' }] }] });
  check('tokens up to a cache_control mark are counted as created',
    marked.usage.cache_creation_input_tokens > 0 && marked.usage.cache_read_input_tokens > 0 &&
    marked.usage.input_tokens > 0, marked.usage);
}

async function testStreaming(client) {
  const types = [];
  const stream = client.messages.stream(story);
  stream.on('streamEvent', (event) => types.push(event.type));
  let text = '';
  stream.on('text', (delta) => { text += delta; });
  const message = await stream.finalMessage();
  check('a stream begins and ends as it should', types[0] === 'message_start' &&
    types[1] === 'content_block_start' && types.at(-2) === 'message_delta' &&
    types.at(-1) === 'message_stop', types);
  check('the SDK puts the stream together', message.content[0].text === text && text.length > 0 &&
    message.usage.output_tokens > 0 && message.stop_reason === 'max_tokens', message);
  const whole = await client.messages.create(story);
  check('streamed and whole text are equal', whole.content[0].text === text, whole);
  const stopped = await client.messages.create({ ...story, stop_sequences: [text.slice(5, 12)] });
  check('a stop sequence ends the reply', stopped.stop_reason === 'stop_sequence' &&
    stopped.stop_sequence === text.slice(5, 12) && stopped.content[0].text === text.slice(0, 5),
    stopped);
}

async function testThinking(client) {
  const body = { model: 'claude-any', max_tokens: 90, thinking: { type: 'enabled', budget_tokens: 30 },
    messages: [{ role: 'user', content: 'What is the capital of France?' }] };
  const message = await client.messages.stream(body).finalMessage();
  const blocks = message.content.map((block) => block.type);
  check('a thinking budget leaves room for the answer', blocks.at(-1) === 'text' &&
    (blocks.length === 1 || (blocks[0] === 'thinking' && message.content[0].signature.length > 0)),
    message);
  const next = await client.messages.create({ ...body, messages: [...body.messages,
    { role: 'assistant', content: message.content }, { role: 'user', content: 'Thank you.' }] });
  check('the thinking comes back as it was generated', next.usage.cache_read_input_tokens >=
    message.usage.input_tokens + message.usage.output_tokens - 8, [message.usage, next.usage]);
}

async function testTools(client) {
  const body = { model: 'claude-any', max_tokens: 200, tools,
    messages: [{ role: 'user', content: 'What is the weather in Oslo?' }] };
  const message = await client.messages.stream(body).finalMessage();
  const use = message.content.find((block) => block.type === 'tool_use');
  check('a tool is used', use?.name === 'get_weather' && use.input.city === 'Oslo' &&
    message.stop_reason === 'tool_use', message);
  const next = { ...body, messages: [...body.messages, { role: 'assistant', content: message.content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id,
      content: '{"temperature": 4, "condition": "cloudy"}' }] }] };
  const told = await client.messages.create(next);
  check('the tool\'s result is told', /cloudy/.test(told.content[0].text) &&
    told.stop_reason === 'end_turn', told);
  check('the call comes back as it was generated', told.usage.cache_read_input_tokens >=
    message.usage.input_tokens + message.usage.cache_read_input_tokens +
    message.usage.output_tokens - 8, [message.usage, told.usage]);
}

async function testToolChoice(client) {
  const body = { model: 'claude-any', max_tokens: 200, tools,
    messages: [{ role: 'user', content: 'Hello!' }] };
  const any = await client.messages.create({ ...body,
    tool_choice: { type: 'any', disable_parallel_tool_use: true } });
  check('any tool is called', any.stop_reason === 'tool_use' && any.content.length === 1 &&
    typeof any.content[0].input.city === 'string', any);
  const [name] = tools.map((tool) => tool.name).slice(-1);
  const named = await client.messages.stream({ ...body, temperature: 1, seed: 3,
    tool_choice: { type: 'tool', name } }).finalMessage();
  check('a named tool is called', named.stop_reason === 'tool_use' && named.content[0].name === name,
    named);
}

async function testErrors(client, url) {
  const wrong = await errorOf('a wrong field is refused', client.messages.create({ ...story,
    messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'base64',
      media_type: 'image/png', data: 'aGk=' } }] }] }));
  check('an image is a 400 that names the part', wrong instanceof Anthropic.BadRequestError &&
    wrong.error.error.type === 'invalid_request_error' &&
    /messages\[0\]\.content\[0\]\.type/.test(wrong.message) && /^req-/.test(wrong.requestID), wrong);
  const long = await errorOf('a long prompt is refused', client.messages.create({ ...story,
    messages: [{ role: 'user', content: 'word '.repeat(5000) }] }));
  check('a prompt that is too long names both numbers', long.status === 400 &&
    /prompt is too long: \d{4,} tokens > 2047 maximum/.test(long.message), long.message);
  const missing = await errorOf('an unknown path is refused', client.get('/v1/messages/x'));
  check('a 404 is a NotFoundError', missing instanceof Anthropic.NotFoundError, missing);
  const locked = start([], { HOLDFAST_API_KEY: 'secret' });
  const lockedUrl = await locked.listening;
  await ready(lockedUrl);
  const keyless = new Anthropic({ apiKey: 'wrong', baseURL: lockedUrl, maxRetries: 0 });
  const denied = await errorOf('a wrong key is refused', keyless.messages.create(story));
  check('a wrong key is an AuthenticationError', denied instanceof Anthropic.AuthenticationError &&
    denied.error.error.type === 'authentication_error', denied);
  for (const options of [{ apiKey: 'secret' }, { authToken: 'secret', apiKey: null }]) {
    const allowed = new Anthropic({ ...options, baseURL: lockedUrl, maxRetries: 0 });
    check(`the key opens as ${Object.keys(options)[0]}`,
      (await allowed.models.list()).data.length === 1);
  }
  locked.child.kill('SIGTERM');
  await locked.exited;
  void url;
}

async function testCancelAndConcurrency(client, url) {
  const stream = client.messages.stream({ ...story, max_tokens: 100000, ignore_eos: true });
  for await (const event of stream) {
    if (event.type === 'content_block_delta') break;
  }
  stream.abort();
  const started = Date.now();
  for (;;) {
    const slots = await (await fetch(`${url}/slots`)).json();
    if (slots.every((slot) => !slot.is_processing)) break;
    if (Date.now() - started > 5000) break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  check('an aborted stream gives its slot back', Date.now() - started < 5000);
  const replies = await Promise.all(Array.from({ length: 20 }, async (_, i) => {
    const body = { model: 'claude-any', max_tokens: 24,
      messages: [{ role: 'user', content: `My name is Number${i}. What is my name?` }] };
    return i % 2 === 0 ? client.messages.create(body) : client.messages.stream(body).finalMessage();
  }));
  check('twenty requests at once are answered', replies.every((reply) =>
    reply.content[0]?.text.length > 0), replies);
  const alone = await client.messages.create({ model: 'claude-any', max_tokens: 24,
    messages: [{ role: 'user', content: 'My name is Number7. What is my name?' }] });
  check('company changes nothing', alone.content[0].text === replies[7].content[0].text,
    [alone, replies[7]]);
}

const server = start(['--store', 'off']);
const url = await server.listening;
await ready(url);
const client = new Anthropic({ apiKey: 'any', baseURL: url, maxRetries: 0 });
await testPlain(client);
await testStreaming(client);
await testThinking(client);
await testTools(client);
await testToolChoice(client);
await testErrors(client, url);
await testCancelAndConcurrency(client, url);
server.child.kill('SIGTERM');
check('SIGTERM ends with 0', (await server.exited).code === 0);
finish();
