// OpenAI's official SDK against the real binary with the demo model: node openai.mjs BINARY.
import OpenAI from 'openai';

import { check, errorOf, finish, ready, start } from './harness.mjs';

const model = 'any';
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const functions = ['get_weather', 'get_time'].map((name) => ({ name,
  description: `Get the ${name === 'get_time' ? 'local time' : 'weather'} of a city`, parameters }));
const tools = functions.map((fn) => ({ type: 'function', function: fn }));
const oslo = 'What is the weather in Oslo?';
const result = '{"temperature": 4, "condition": "cloudy"}';
const story = { model, messages: [{ role: 'user', content: 'Tell me a story.' }], max_tokens: 40 };

async function testChat(client, url) {
  const models = await client.models.list();
  check('models are listed', models.data[0]?.id === 'holdfast-demo-Q4_K_M', models);
  const { data, request_id: id } = await client.chat.completions.create(story).withResponse();
  const text = data.choices[0].message.content;
  check('a chat is answered', text.length > 0 && data.choices[0].finish_reason === 'length' &&
    /^req-/.test(id), data);
  const deltas = [];
  let usage;
  for await (const chunk of await client.chat.completions.create(
    { ...story, stream: true, stream_options: { include_usage: true } })) {
    deltas.push(chunk.choices[0]?.delta?.content ?? '');
    usage = chunk.usage ?? usage;
  }
  check('streamed and whole text are equal', deltas.join('') === text && deltas.length > 5, deltas);
  check('usage is streamed', usage.completion_tokens === 40 &&
    usage.prompt_tokens_details.cached_tokens > 0, usage);
  const logprobs = await client.chat.completions.create({ ...story, logprobs: true,
    top_logprobs: 3, max_tokens: 5 });
  check('logprobs are those of the best tokens', logprobs.choices[0].logprobs.content.length === 5 &&
    logprobs.choices[0].logprobs.content.every((token) =>
      token.logprob === token.top_logprobs[0].logprob), logprobs.choices[0].logprobs);
  const banned = data.choices[0].message.content.trim().split(' ')[0];
  const { tokens } = await (await fetch(`${url}/tokenize`, { method: 'POST',
    body: JSON.stringify({ content: banned }) })).json();
  const biased = await client.chat.completions.create({ ...story,
    logit_bias: { [tokens[0]]: -100 } });
  check('a banned token is not said', !biased.choices[0].message.content.startsWith(banned), biased);
  const completion = await client.completions.create({ model, prompt: 'The file', max_tokens: 5,
    echo: true });
  check('a completion echoes its prompt', completion.choices[0].text.startsWith('The file') &&
    completion.choices[0].text.length > 8, completion);
  const thinking = await client.chat.completions.create({ ...story, max_tokens: 400,
    messages: [{ role: 'user', content: 'What is the capital of France?' }],
    reasoning_effort: 'low', thinking_budget: 10 });
  check('thinking is limited and answered', thinking.choices[0].message.content.length > 0 &&
    thinking.usage.completion_tokens_details.reasoning_tokens <= 13, thinking);
}

async function testTools(client) {
  const body = { model, tools, messages: [{ role: 'user', content: oslo }] };
  const stream = client.chat.completions.stream(body);
  const message = await stream.finalMessage();
  const call = message.tool_calls?.[0];
  check('a tool is called', call?.function.name === 'get_weather' &&
    JSON.parse(call.function.arguments).city === 'Oslo', message);
  const runner = client.chat.completions.runTools({ ...body, tools: functions.map((fn) => ({
    type: 'function', function: { ...fn, parse: JSON.parse, function: () => result } })) });
  check('the SDK runs the tool and gets the answer', /cloudy/.test(await runner.finalContent()),
    runner.messages);
}

const person = { type: 'object', properties: { name: { type: 'string', maxLength: 40 },
  age: { type: 'integer', minimum: 0, maximum: 150 }, mood: { enum: ['good', 'bad'] } },
required: ['name', 'age', 'mood'], additionalProperties: false };
const isPerson = (value) => Object.keys(value).join() === 'name,age,mood' &&
  Number.isInteger(value.age) && value.age <= 150 && ['good', 'bad'].includes(value.mood);

async function testFormats(client) {
  const ada = { model, messages: [{ role: 'user', content: 'Ada is 36 and happy. Who is she?' }] };
  const response_format = { type: 'json_schema',
    json_schema: { name: 'person', strict: true, schema: person } };
  const parsed = await client.chat.completions.parse({ ...ada, response_format });
  check('a reply has its schema', isPerson(parsed.choices[0].message.parsed), parsed.choices[0]);
  const streamed = await client.chat.completions.stream({ ...ada, response_format }).finalMessage();
  check('so has a streamed one', streamed.content === parsed.choices[0].message.content, streamed);
  const hot = await client.chat.completions.create({ ...ada, response_format, temperature: 1000,
    seed: 5, reasoning_effort: 'low', thinking_budget: 20, max_tokens: 600 });
  check('and one at random, behind a thought', isPerson(JSON.parse(hot.choices[0].message.content)) &&
    hot.usage.completion_tokens_details.reasoning_tokens > 5, hot.choices[0]);
  const any = await client.chat.completions.create({ ...ada, max_tokens: 300,
    response_format: { type: 'json_object' } });
  check('an object is an object', any.choices[0].finish_reason === 'length' ||
    typeof JSON.parse(any.choices[0].message.content) === 'object', any.choices[0]);
  const made = await client.responses.parse({ model, input: 'Ada is 36. Who is she?',
    text: { format: { type: 'json_schema', name: 'person', strict: true, schema: person } } });
  check('a response has its schema', isPerson(made.output_parsed), made);

  const hello = { model, tools, messages: [{ role: 'user', content: 'Hello!' }] };
  const required = await client.chat.completions.create({ ...hello, tool_choice: 'required',
    parallel_tool_calls: false });
  const call = required.choices[0].message.tool_calls?.[0];
  check('a required tool is called', required.choices[0].finish_reason === 'tool_calls' &&
    typeof JSON.parse(call.function.arguments).city === 'string', required.choices[0]);
  const named = await client.chat.completions.create({ ...hello, temperature: 1000, seed: 3,
    tool_choice: { type: 'function', function: { name: 'get_time' } } });
  check('a named tool is called', named.choices[0].message.tool_calls?.length === 1 &&
    named.choices[0].message.tool_calls[0].function.name === 'get_time', named.choices[0]);
  const refused = await errorOf('a keyword that is not supported is named', client.chat.completions
    .create({ ...ada, response_format: { type: 'json_schema', json_schema: { name: 'n',
      schema: { ...person, propertyNames: {} } } } }));
  check('by its place', refused.status === 400 &&
    refused.param === 'response_format.json_schema.schema.propertyNames', refused);
}

async function testResponses(client) {
  const first = await client.responses.create({ model, input: 'My name is Ada. Remember it.',
    instructions: 'You are a helpful assistant.' });
  check('a response is made', first.status === 'completed' && first.output_text.length > 0, first);
  const again = await client.responses.retrieve(first.id);
  check('a response is kept', again.output_text === first.output_text ||
    again.output[0].content[0].text === first.output_text, again);
  const second = await client.responses.create({ model, input: 'What is my name?',
    instructions: 'You are a helpful assistant.', previous_response_id: first.id });
  check('a response is continued', /Ada/.test(second.output_text), second);
  check('what was read is not read again', second.usage.input_tokens_details.cached_tokens >=
    first.usage.input_tokens + first.usage.output_tokens - 8, [first.usage, second.usage]);
  await client.responses.delete(first.id);
  const gone = await errorOf('a deleted response is gone', client.responses.retrieve(first.id));
  check('a 404 is a NotFoundError', gone instanceof OpenAI.NotFoundError, gone);

  const input = [{ role: 'user', content: oslo }];
  const body = { model, store: false, tools: functions.map((fn) => ({ type: 'function', ...fn })) };
  const events = [];
  const stream = client.responses.stream({ ...body, input });
  for await (const event of stream) events.push(event);
  const response = await stream.finalResponse();
  const call = response.output.find((item) => item.type === 'function_call');
  check('a function is called in a stream', call?.name === 'get_weather' &&
    JSON.parse(call.arguments).city === 'Oslo', response);
  check('a stream has its whole life', events[0].type === 'response.created' &&
    events[1].type === 'response.in_progress' && events.at(-1).type === 'response.completed' &&
    events.every((event, i) => event.sequence_number === i), events.map((event) => event.type));
  const told = await client.responses.create({ ...body, input: [...input, ...response.output,
    { type: 'function_call_output', call_id: call.call_id, output: result }] });
  check('the function\'s result is told', /cloudy/.test(told.output_text), told);
  check('the call comes back as it was generated', told.usage.input_tokens_details.cached_tokens >=
    response.usage.input_tokens + response.usage.output_tokens - 8, [response.usage, told.usage]);
}

async function testErrors(client) {
  const image = await errorOf('an image is refused', client.chat.completions.create({ ...story,
    messages: [{ role: 'user', content: [{ type: 'image_url',
      image_url: { url: 'http://127.0.0.1:1/x.png' } }] }] }));
  check('an image is a BadRequestError that names the part',
    image instanceof OpenAI.BadRequestError && image.param === 'messages[0].content[0].type', image);
  const long = 'word '.repeat(5000);
  const chat = await errorOf('a long chat is refused', client.chat.completions.create({ ...story,
    messages: [{ role: 'user', content: long }] }));
  check('a prompt that is too long is named by code', chat.status === 400 &&
    chat.code === 'context_length_exceeded' && /2048/.test(chat.message), chat);
  const whole = await errorOf('a long response is refused', client.responses.create({ model,
    input: long }));
  check('so it is for a response', whole.code === 'context_length_exceeded', whole);
  let failed;
  for await (const event of await client.responses.create({ model, input: long, stream: true })) {
    failed = event;
  }
  check('and in its stream', failed.type === 'response.failed' &&
    failed.response.error.code === 'context_length_exceeded', failed);
  const embeddings = await errorOf('embeddings are refused', client.embeddings.create({ model,
    input: 'a' }));
  check('embeddings are refused clearly', embeddings.status === 400 &&
    /embeddings/.test(embeddings.message), embeddings);
  const type = await errorOf('a wrong type is refused', client.chat.completions.create({ ...story,
    temperature: 'hot' }));
  check('a wrong field is named', type.param === 'temperature', type);
}

async function testCancelAndConcurrency(client, url) {
  const controller = new AbortController();
  const endless = await client.chat.completions.create({ ...story, max_tokens: 100000,
    ignore_eos: true, stream: true }, { signal: controller.signal });
  for await (const chunk of endless) if (chunk.choices[0]?.delta?.content) break;
  controller.abort();
  const started = Date.now();
  const busy = async () => (await (await fetch(`${url}/slots`)).json())
    .some((slot) => slot.is_processing);
  while (await busy() && Date.now() - started < 5000) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  check('an aborted stream gives its slot back', Date.now() - started < 5000);
  const ask = (i, way) => {
    const content = `My name is Number${i}. What is my name?`;
    const body = { model, max_tokens: 24, messages: [{ role: 'user', content }] };
    if (way === 0) return client.chat.completions.create(body);
    if (way === 1) return client.chat.completions.stream(body).finalChatCompletion();
    return client.responses.create({ model, input: content, max_output_tokens: 24 });
  };
  const text = (reply) => reply.output_text ?? reply.choices[0].message.content;
  const replies = await Promise.all(Array.from({ length: 20 }, (_, i) => ask(i, i % 3)));
  check('twenty requests at once are answered', replies.every((reply) => text(reply).length > 0));
  check('company and API change nothing', text(await ask(7, 0)) === text(replies[7]) &&
    text(await ask(8, 1)) === text(replies[8]), replies.slice(7, 9));
}

const server = start(['--store', 'off']);
const url = await server.listening;
await ready(url);
const client = new OpenAI({ apiKey: 'any', baseURL: `${url}/v1`, maxRetries: 0 });
await testChat(client, url);
await testTools(client);
await testFormats(client);
await testResponses(client);
await testErrors(client);
await testCancelAndConcurrency(client, url);
server.child.kill('SIGTERM');
check('SIGTERM ends with 0', (await server.exited).code === 0);
finish();
