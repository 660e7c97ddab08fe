// Cline: chat completions with a long system prompt, tools described in it and called in the text, results
// as user turns, details of the environment behind each message, a checkpoint restored, and the middle of
// the history cut out when it grows long.
import { page, question } from './session.mjs';

export const name = 'Cline';

export async function play(session) {
  const system = { role: 'system', content: `You are Cline, a skilled software engineer.\n` +
    `Tools are called in XML: <read_file><path>PATH</path></read_file>\n${page('engineer', 1000)}` };
  const details = (i) => ({ type: 'text', text: '<environment_details>\n# Current Time\n' +
    `11/30/2026, 9:${String(10 + i)}:00 PM\n</environment_details>` });
  const base = { model: 'demo', temperature: 0, max_tokens: 40 };
  let messages = [system], known = 0, kind = 'first';
  const marks = [];
  const turn = async (i, text) => {
    marks.push({ n: messages.length, known });
    messages.push({ role: 'user', content: [{ type: 'text', text }, details(i)] });
    const { message, usage } = await session.chat({ ...base, messages });
    await session.turn(kind, known, usage);
    kind = 'extend';
    known = usage.prompt + usage.reply;
    messages.push({ role: 'assistant', content: [{ type: 'text', text: message.content }] });
  };
  await turn(0, `<task>\n${question(1)}\n</task>`);
  for (let i = 1; i < 12; i += 1) {
    await turn(i, i % 2 === 0 ? `[read_file for 'notes_${i}.txt'] Result:\n${page('note', 60)}` : question(i));
  }
  // A checkpoint is restored: the last three turns are gone.
  const back = marks.at(-3);
  messages = messages.slice(0, back.n);
  known = back.known;
  kind = 'drop';
  for (let i = 12; i < 18; i += 1) await turn(i, question(i));
  // The context grows long: the first pair stays, the half behind it goes.
  const n_cut = 2 * Math.floor((messages.length - 3) / 4);
  messages = [...messages.slice(0, 3), ...messages.slice(3 + n_cut)];
  known = marks[1].known;
  kind = 'compact';
  for (let i = 18; i < 26; i += 1) await turn(i, question(i));
}
