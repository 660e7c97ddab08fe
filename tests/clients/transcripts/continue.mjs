// Continue: chat completions with content parts, completions of code on the side while the talk goes on, a
// message edited and sent again, a reply asked for anew, context put before a question.
import { page, question } from './session.mjs';

export const name = 'Continue';

export async function play(session) {
  const system = { role: 'system', content: `You are an agent in an editor.\n${page('editor', 900)}` };
  const base = { model: 'demo', temperature: 0, max_tokens: 40 };
  let messages = [system], known = 0, kind = 'first';
  const marks = [];
  const ask = async () => {
    const { message, usage } = await session.chat({ ...base, messages });
    await session.turn(kind, known, usage);
    kind = 'extend';
    known = usage.prompt + usage.reply;
    messages.push(message);
    return usage;
  };
  const turn = (text, context) => {
    marks.push({ n: messages.length, known });
    messages.push({ role: 'user', content: [...(context ? [{ type: 'text', text: `\`\`\`notes.txt\n${context}\n\`\`\`` }] : []),
      { type: 'text', text }] });
    return ask();
  };
  const complete = async (i) => session.turn('side', 0, (await session.completion({ model: 'demo', max_tokens: 8,
    temperature: 0, prompt: `def count_${i}(names):\n    total = 0\n    for name in` })).usage);
  for (let i = 0; i < 11; i += 1) {
    await turn(question(3 * i + 1), i === 2 ? page('note', 200) : '');
    if (i % 3 === 0) await complete(i);
  }
  // The last reply is asked for again.
  let usage = { prompt: 0 };
  messages.pop();
  kind = 'again';
  known = session.rows.filter((row) => row.kind === 'extend').at(-1).prompt - 1;  // one token is always read
  usage = await ask();
  // A message further up is edited and sent again: all behind it is gone.
  const back = marks.at(-5);  // five turns
  messages = messages.slice(0, back.n);
  known = back.known;
  kind = 'drop';
  await turn('My name is Marta. Remember it.');
  await turn('What is my name?');
  // The context of an early message is changed, the talk behind it stays.
  messages = messages.map((m, i) => i === marks[2].n
    ? { ...m, content: m.content.map((part, j) => j === 0 ? { ...part, text: page('new note', 150) } : part) } : m);
  known = marks[2].known;
  kind = 'edit';
  for (let i = 0; i < 8; i += 1) await turn(question(i + 40));
}
