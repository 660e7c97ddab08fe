// Codex: the responses API without storing, every output item echoed back, encrypted reasoning, outputs of
// calls, an interrupted turn, a turn taken back, and compaction.
import { cityTool, page, question } from './session.mjs';

export const name = 'Codex';

const tools = [cityTool('get_weather', 'Get the weather of a city'),
  cityTool('get_time', 'Get the local time of a city')]
  .map((tool) => ({ type: 'function', strict: false, ...tool }));
const message = (role, text) => ({ type: 'message', role, content: [{ type: 'input_text', text }] });

export async function play(session) {
  const base = { model: 'gpt-5-codex', instructions: `You are a coding agent.\n${page('agent', 800)}`, tools,
    tool_choice: 'auto', parallel_tool_calls: false, include: ['reasoning.encrypted_content'],
    reasoning: { effort: 'none' }, prompt_cache_key: '0199', max_output_tokens: 48, temperature: 0 };
  const opening = [message('developer', 'The sandbox allows reading files.'),
    message('user', '<environment_context>\n  <cwd>/home/marta/project</cwd>\n</environment_context>')];
  let input = [...opening], known = 0, kind = 'first';
  const marks = [];
  const turn = async (text) => {
    marks.push({ n: input.length, known });
    input.push(message('user', text));
    for (let calls = 0; ; calls += 1) {
      const { output, usage } = await session.responses({ ...base, input });
      await session.turn(kind, known, usage);
      kind = 'extend';
      known = usage.prompt + usage.reply;
      // Items come back without what only the server needs.
      input.push(...output.map(({ id, status, ...item }) => item));
      const made = output.filter((item) => item.type === 'function_call');
      if (made.length === 0 || calls === 2) return;
      for (const call of made) {
        input.push({ type: 'function_call_output', call_id: call.call_id,
          output: '{"temperature": 4, "condition": "cloudy"}' });
      }
    }
  };
  for (let i = 0; i < 10; i += 1) await turn(question(i));
  // The last two turns are taken back and put otherwise.
  const back = marks.at(-2);
  input = input.slice(0, back.n);
  known = back.known;
  kind = 'drop';
  await turn('My name is Marta. Remember it.');
  await turn('What is my name?');
  // Compaction: a summary is asked for, then the talk goes on from the person's turns and it.
  input.push(message('user', 'Write a handoff summary in one sentence.'));
  const summary = await session.responses({ ...base, input });
  await session.turn('extend', known, summary.usage);
  const said = summary.output.filter((item) => item.type === 'message')
    .flatMap((item) => item.content.map((part) => part.text)).join('');
  const asked = input.filter((item) => item.type === 'message' && item.role === 'user').slice(1, 4);
  const bare = await session.responses({ ...base, input: opening, max_output_tokens: 1 });
  await session.turn('compact', 0, bare.usage);
  input = [...opening, ...asked, message('user', `Another model began this:\n${said}`)];
  known = bare.usage.prompt - 8;  // less the mark of a reply
  kind = 'compact';
  await turn(question(4));
  for (let i = 5; i < 12; i += 1) await turn(question(i));
}
