// Open WebUI: a talk whose title, tags and follow-ups are asked for after each answer with the chat pasted
// into another prompt, a date in the system prompt that changes, answers made again, a branch.
import { page, question } from './session.mjs';

export const name = 'Open WebUI';

export async function play(session) {
  const system = (date) => ({ role: 'system', content: `You are a friendly assistant.\n${page('assistant', 800)}` +
    `Today is ${date}.\n${page('helper', 120)}` });
  const base = { model: 'demo', temperature: 0, max_tokens: 40 };
  let messages = [system('2026-11-30')], known = 0, kind = 'first';
  const marks = [];
  const task = async (what) => {
    const chat = messages.slice(1).map((m) => `${m.role.toUpperCase()}: ${m.content}`).join('\n');
    const { usage } = await session.chatInOnePiece({ model: 'demo', max_tokens: 16, temperature: 0, messages: [{ role: 'user',
      content: `### Task:\n${what}\n### Chat History:\n<chat_history>\n${chat}\n</chat_history>` }] });
    await session.turn('side', 0, usage);
  };
  const ask = async () => {
    const { message, usage } = await session.chat({ ...base, messages });
    await session.turn(kind, known, usage);
    kind = 'extend';
    known = usage.prompt + usage.reply;
    messages.push({ role: 'assistant', content: message.content.trim() });
    return usage;
  };
  const turn = async (text) => {
    marks.push({ n: messages.length, known });
    messages.push({ role: 'user', content: text });
    return ask();
  };
  for (let i = 0; i < 6; i += 1) {
    await turn(question(3 * i + 1 + (i % 2)));
    await task('Write a title with an emoji.');
    if (i % 2 === 0) await task('Give three tags in JSON.');
    await task('Suggest three follow-up questions.');
  }
  // The last answer is made again.
  messages.pop();
  kind = 'again';
  known = session.rows.filter((row) => row.kind === 'extend').at(-1).prompt - 1;  // one token is always read
  await ask();
  // A branch from an earlier message.
  const back = marks.at(-3);
  messages = messages.slice(0, back.n);
  known = back.known;
  kind = 'drop';
  await turn('My name is Marta. Remember it.');
  await turn('What is my name?');
  // Another day: what stands behind the date is new to the server.
  const before = (await session.chatInOnePiece({ ...base, max_tokens: 1,
    messages: [{ role: 'system', content: system('').content.split('Today is')[0] }, { role: 'user', content: 'x' }] })).usage;
  await session.turn('side', 0, before);
  messages[0] = system('2026-12-01');
  known = before.prompt - 12;  // less the end of the message, the turn of "x" and the mark of a reply
  kind = 'edit';
  for (let i = 0; i < 4; i += 1) await turn(question(i + 50));
  // And another: by now it is known where the prompts differ.
  messages[0] = system('2026-12-02');
  known = before.prompt - 12;
  kind = 'date';
  await turn(question(60));
}
