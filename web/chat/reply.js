// One reply: asks, and fills a node of the chat's tree while the answer comes.

import { events, get, request } from '../lib/api.js';
import { requestBody } from './settings.js';

function addToolCalls(node, deltas) {
  node.tool_calls ??= [];
  for (const delta of deltas) {
    const call = node.tool_calls[delta.index] ??= { id: '', type: 'function',
      function: { name: '', arguments: '' } };
    if (delta.id) call.id = delta.id;
    if (delta.function?.name) call.function.name = delta.function.name;
    call.function.arguments += delta.function?.arguments ?? '';
  }
}

const ENDS = { stop: 'end of turn', length: 'the token limit', tool_calls: 'tool calls' };

function addChunk(node, chunk) {
  if (chunk.error) throw new Error(chunk.error.message);
  if (chunk.prompt_progress) node.progress = chunk.prompt_progress;
  const choice = chunk.choices?.[0];
  if (!choice) return;
  const { delta = {} } = choice;
  if (delta.reasoning_content) {
    node.reasoning = (node.reasoning ?? '') + delta.reasoning_content;
    node.thinkingSince ??= Date.now();
  }
  if ((delta.content || delta.tool_calls) && node.thinkingSince && node.thoughtMs === undefined) {
    node.thoughtMs = Date.now() - node.thinkingSince;
  }
  if (delta.content) node.content += delta.content;
  if (delta.tool_calls) addToolCalls(node, delta.tool_calls);
  if (choice.finish_reason) {
    node.meta = { reuse: chunk.reuse, timings: chunk.timings, seed: chunk.seed,
      conversation: chunk.conversation, finish: ENDS[choice.finish_reason] ?? choice.finish_reason };
    node.finish = choice.finish_reason;
  }
}

// What the server has written down about a reply that was stopped here, and so had no last event.
async function metaOfStopped(node, since) {
  for (let i = 0; i < 40; i += 1) {
    await new Promise((resolve) => { setTimeout(resolve, 100 + 20 * i); });
    const status = await get(`v1/status?after=${since}`);
    const found = status.requests.find((entry) => ['cancelled', 'stopped'].includes(entry.end) &&
      (!node.progress || entry.prompt_tokens === node.progress.total));
    if (found) {
      return { reuse: found.reuse, conversation: found.conversation, finish: 'you', timings: {
        queue_ms: found.queue_ms, prompt_ms: found.prompt_ms, predicted_n: found.generated,
        predicted_ms: found.predict_ms,
        prompt_per_second: found.prompt_ms > 0 ? (1000 * found.reuse.tokens_read) / found.prompt_ms : 0,
        predicted_per_second: found.predict_ms > 0 ? (1000 * found.generated) / found.predict_ms : 0 } };
    }
  }
  return null;
}

async function lastRequestNumber() {
  try {
    const status = await get(`v1/status?after=${Number.MAX_SAFE_INTEGER}`);
    return status.last_request;
  } catch {
    return null;
  }
}

// Resolves when the node is finished: its state is then done, stopped or failed. `changed` is called
// after every piece. `later`: a promise of what a stopped reply still gets to know, or null.
export async function runReply(node, messages, settings, { signal, changed }) {
  node.state = 'running';
  const since = lastRequestNumber();
  try {
    const response = await request('v1/chat/completions', { method: 'POST', signal,
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(requestBody(messages, settings)) });
    for await (const chunk of events(response)) {
      addChunk(node, chunk);
      changed();
    }
    if (!node.meta) throw new Error('the reply ended before its end');
    node.state = 'done';
  } catch (error) {
    const stopped = error.name === 'AbortError' || signal.aborted;
    node.state = stopped ? 'stopped' : 'failed';
    if (!stopped) node.error = error.message;
  }
  if (node.thinkingSince && node.thoughtMs === undefined) {
    node.thoughtMs = Date.now() - node.thinkingSince;
  }
  delete node.thinkingSince;
  if (node.meta) delete node.progress;
  changed();
  return { later: node.state === 'stopped' ? learnMeta(node, since) : null };
}

async function learnMeta(node, since) {
  const number = await since;
  if (number === null) return;
  node.meta = await metaOfStopped(node, number).catch(() => null) ?? undefined;
  if (node.meta) delete node.progress;
}
