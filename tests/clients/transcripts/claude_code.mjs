// Claude Code: Anthropic messages with a billing line that changes with every request, cache marks that
// move, reminders inside user turns, tool results, quota, topic and title calls on the side, a sub-agent,
// /rewind, old tool results cleared, and compaction.
import { cityTool, page, question } from './session.mjs';

export const name = 'Claude Code';

const mark = { cache_control: { type: 'ephemeral' } };
const tools = [cityTool('get_weather', 'Get the weather of a city'),
  cityTool('get_time', 'Get the local time of a city')]
  .map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters }));

export async function play(session) {
  let request = 0;
  const billing = () => ({ type: 'text', text: 'x-anthropic-billing-header: cc_version=2.0.76.' +
    `${(request * 7919 % 4096).toString(16)}; cc_entrypoint=cli; cch=${(request++ * 104729 % 1048576)
      .toString(16).padStart(5, '0')};` });
  const identity = { type: 'text', text: 'You are Claude Code, Anthropic\'s official CLI.', ...mark };
  const system = () => [billing(), identity,
    { type: 'text', text: `You help with software.\n${page('agent', 900)}`, ...mark }];
  const base = { model: 'claude-sonnet-4-5', max_tokens: 48, temperature: 0, tools,
    metadata: { user_id: 'user_1_account__session_2' } };
  // Cache marks stand on the last user message only; earlier ones lose theirs.
  const unmarked = (messages) => messages.map((m) => ({ ...m, content: typeof m.content === 'string'
    ? m.content : m.content.map(({ cache_control, ...block }) => block) }));
  const marked = (messages) => [...unmarked(messages.slice(0, -1)), { role: 'user', content:
    unmarked(messages.slice(-1))[0].content.map((block, i, all) =>
      i === all.length - 1 ? { ...block, ...mark } : block) }];
  const ask = (messages, extra) => session.anthropic(
    { ...base, system: system(), messages: marked(messages), ...extra });

  await session.turn('side', 0, (await session.anthropic({ model: 'claude-haiku-4-5', max_tokens: 1,
    messages: [{ role: 'user', content: 'quota' }] })).usage);

  let messages = [], known = 0, kind = 'first', before_result = 0;
  const marks = [];  // messages and tokens known at each turn of the person
  const reminder = { type: 'text', text: '<system-reminder>\nThe folder has 12 files.\n</system-reminder>' };
  const turn = async (content) => {
    marks.push({ n: messages.length, known });
    messages.push({ role: 'user', content });
    for (let calls = 0; ; calls += 1) {
      const { content: reply, usage } = await ask(messages);
      await session.turn(kind, known, usage);
      kind = 'extend';
      known = usage.prompt + usage.reply;
      messages.push({ role: 'assistant', content: reply });
      const uses = reply.filter((block) => block.type === 'tool_use');
      if (uses.length === 0 || calls === 2) return;
      before_result ||= known;
      messages.push({ role: 'user', content: uses.map((use) => ({ type: 'tool_result',
        tool_use_id: use.id, content: [{ type: 'text', text: '{"temperature": 4, "condition": "cloudy"}' }] })) });
    }
  };
  for (let i = 0; i < 9; i += 1) {
    await turn([...(i === 0 ? [reminder] : []), { type: 'text', text: question(i) }]);
    if (i % 4 === 1) {
      const { usage } = await session.anthropic({ model: 'claude-haiku-4-5', max_tokens: 24, temperature: 0,
        system: [billing(), { type: 'text', text: 'Say in JSON whether this is a new topic.' }],
        messages: [{ role: 'user', content: question(i) }, { role: 'assistant', content: '{' }] });
      await session.turn('side', 0, usage);
    }
  }
  // A sub-agent: other instructions, the same tools.
  await session.turn('side', 0, (await session.anthropic({ ...base, system: [billing(), identity,
    { type: 'text', text: `You search files.\n${page('searcher', 300)}` }],
  messages: [{ role: 'user', content: [{ type: 'text', text: 'What is the weather in Rome?' }] }] })).usage);
  await turn([{ type: 'text', text: question(10) }]);
  // /rewind by three turns of the person.
  const back = marks.at(-3);
  messages = messages.slice(0, back.n);
  known = back.known;
  kind = 'drop';
  await turn([{ type: 'text', text: 'My name is Marta. Remember it.' }]);
  await turn([{ type: 'text', text: 'What is my name?' }]);
  // Old tool results are cleared in place: what follows the first of them is new to the server.
  const first = messages.findIndex((m) => m.role === 'user' && m.content[0].type === 'tool_result');
  if (first > 0) {
    messages = messages.map((m, i) => i === first ? { ...m, content: m.content.map((block) => ({ ...block,
      content: '[Old tool result content cleared]' })) } : m);
    kind = 'edit';
    known = before_result;
    await turn([{ type: 'text', text: question(1) }]);
  }
  // Compaction: the whole conversation and a wish for a summary, then a new one that begins with it.
  messages.push({ role: 'user', content: [{ type: 'text', text: 'Summarise this conversation in one sentence.' }] });
  const summary = await ask(messages, { tools });
  await session.turn('extend', known, summary.usage);
  const text = summary.content.filter((block) => block.type === 'text').map((block) => block.text).join('');
  const rest = await session.countTokens({ ...base, system: system(), messages: [{ role: 'user', content: 'x' }] });
  messages = [];
  kind = 'compact';
  known = rest - 12;  // less the turn of "x" and the mark of a reply
  await turn([{ type: 'text', text: `This session goes on from an earlier one:\n${text}` },
    { type: 'text', text: question(4) }]);
  for (let i = 5; i < 11; i += 1) await turn([{ type: 'text', text: question(i) }]);
}
