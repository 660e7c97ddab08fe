// OpenCode: chat completions with tools, arguments that come back with other spacing and order, a title
// call on the side, old tool outputs pruned in place, undo, and compaction.
import { cityTool, page, question } from './session.mjs';

export const name = 'OpenCode';

const tools = [cityTool('get_weather', 'Get the weather of a city'),
  cityTool('get_time', 'Get the local time of a city')].map((tool) => ({ type: 'function', function: tool }));

export async function play(session) {
  const system = [{ role: 'system', content: `You are opencode, an agent.\n${page('agent', 900)}` }];
  const base = { model: 'demo', temperature: 0, max_tokens: 48, tools, tool_choice: 'auto' };
  let messages = [...system], known = 0, kind = 'first', before_result = 0;
  const marks = [];
  const turn = async (text) => {
    marks.push({ n: messages.length, known });
    messages.push({ role: 'user', content: text });
    for (let calls = 0; ; calls += 1) {
      const { message, usage } = await session.chat({ ...base, messages });
      await session.turn(kind, known, usage);
      kind = 'extend';
      known = usage.prompt + usage.reply;
      // Parsed and written again on the way.
      for (const call of message.tool_calls ?? []) {
        call.function.arguments = JSON.stringify(JSON.parse(call.function.arguments), null, 2);
      }
      messages.push({ ...message, content: message.content === '' ? null : message.content });
      if (message.tool_calls === undefined || calls === 2) return;
      if (before_result === 0) before_result = known;
      for (const call of message.tool_calls) {
        messages.push({ role: 'tool', tool_call_id: call.id, content: '{"temperature": 4, "condition": "cloudy"}' });
      }
    }
  };
  for (let i = 0; i < 9; i += 1) {
    await turn(question(i));
    if (i === 0) {
      await session.turn('side', 0, (await session.chat({ model: 'demo', max_tokens: 16, temperature: 0,
        messages: [{ role: 'system', content: 'You write titles.' },
          { role: 'user', content: `A title for: ${question(0)}` }] })).usage);
    }
  }
  // /undo, twice.
  const back = marks.at(-2);
  messages = messages.slice(0, back.n);
  known = back.known;
  kind = 'drop';
  await turn('My name is Marta. Remember it.');
  await turn('What is my name?');
  // Old outputs are pruned: what follows the first of them is new to the server.
  let pruned = 0;
  messages = messages.map((m) => m.role === 'tool' && pruned++ === 0
    ? { ...m, content: '[Old tool result content cleared]' } : m);
  known = before_result;
  kind = 'edit';
  await turn(question(5));
  messages.push({ role: 'user', content: 'Summarise the conversation in one sentence.' });
  const summary = await session.chat({ ...base, messages });
  await session.turn('extend', known, summary.usage);
  const bare = await session.chat({ ...base, max_tokens: 1, messages: [...system, { role: 'user', content: 'x' }] });
  await session.turn('compact', 0, bare.usage);
  messages = [...system, { role: 'user', content: 'What did we do so far?' },
    { role: 'assistant', content: summary.message.content || 'We talked.' }];
  known = bare.usage.prompt - 12;  // less the turn of "x" and the mark of a reply
  kind = 'compact';
  for (let i = 3; i < 12; i += 1) await turn(question(i));
}
