// What every reply says about its read: how much of the prompt was there already, where it came
// from, how much was read again although it had been read before, and why.

import { h } from './dom.js';
import { count, duration, percent, plural, speed } from './format.js';

export const SOURCES = {
  live: { name: 'Live', text: 'the conversation went on where it had ended' },
  ram: { name: 'RAM', text: 'from a checkpoint of the same conversation in memory' },
  borrowed: { name: 'Borrowed', text: 'from another conversation with the same beginning' },
  disk: { name: 'Disk', text: 'from the store on disk' },
  none: { name: 'New', text: 'nothing that is kept begins like this' },
};
const PARTS = { again: 'Read again', fresh: 'New text' };

// Of ReuseInfo's `limit`: why tokens that were known were read again.
const LIMITS = {
  differs: 'The prompt changed',
  no_checkpoint: 'No state kept any nearer',
  whole_prompt: 'The last token is always read',
  being_read: 'Another request was reading it',
  prompt_logprobs: 'Probabilities of the prompt itself were asked for',
  too_short: 'Too short to be used',
};
export const limitName = (reuse) => LIMITS[reuse.limit] ?? 'Other';

const clean = (source) => (SOURCES[source] ? source : 'none');

export function sourceChip(source) {
  const name = clean(source);
  return h(`span.chip.sourced.source-${name}`, { title: SOURCES[name].text }, SOURCES[name].name);
}

// A prompt's tokens: reused, read again (they were known), new.
export function partsOf(reuse) {
  const { tokens_reused: reused, tokens_read: read, tokens_known: known = reused } = reuse;
  const again = Math.min(read, Math.max(0, known - reused));
  return { total: reused + read, reused, again, fresh: read - again };
}

// The parts as one bar. `todo`: tokens still to be read.
function bar(source, { reused, again, fresh, todo = 0 }, difference, label) {
  const total = reused + again + fresh + todo;
  const part = (name, n) => (n > 0 ? h(`span.${name}`, { style: { flex: `${n} 0 0` } }) : null);
  return h('div.reuse-bar', { role: 'img', 'aria-label': label },
    part(`source-${clean(source)}`, reused), part('source-again', again), part('source-fresh', fresh),
    part('todo', todo),
    difference > 0 && difference < total ? h('i.difference', {
      style: { left: `${(100 * difference) / total}%` },
      title: `The first different token is number ${count(difference)}` }) : null);
}

// Until the end of the reply tells more; `progress` is llama.cpp's prompt_progress.
export function readingView({ total, cache, processed }) {
  const reading = processed < total;
  const label = `${count(processed)} of ${count(total)} tokens are there, ${count(cache)} of them reused`;
  return h('div.reuse', { class: reading ? 'reading' : null },
    h('div.reuse-head.source-live', h('span.share', percent(cache, total)),
      h('span.what', cache > 0 ? `reused: ${plural(cache, 'token')}` : 'reused'),
      h('span.cost', reading ? `reading ${count(processed - cache)} of ${count(total - cache)}`
        : `${count(total - cache)} read`)),
    bar('live', { reused: cache, again: 0, fresh: processed - cache, todo: total - processed }, null,
      label));
}

// About how long reading what was reused would have taken, at the speed of what was read; only when
// enough was read to tell.
function savedMs(reuse, timings) {
  if (!(timings?.prompt_per_second > 0) || reuse.tokens_read < 16 || reuse.tokens_reused === 0) return null;
  return (1000 * reuse.tokens_reused) / timings.prompt_per_second;
}

function details({ reuse, timings = {}, seed, conversation, finish }) {
  const saved = savedMs(reuse, timings);
  const row = (name, value) => (value === null || value === undefined ? null
    : [h('dt', name), h('dd', value)]);
  const link = (id) => h('a.mono', { href: `#conversations/${encodeURIComponent(id)}` }, id);
  return h('dl.definition',
    row('State came', [SOURCES[clean(reuse.source)].text,
      reuse.restore_ms > 0 ? `, restored and checked in ${duration(reuse.restore_ms)}` : '']
      .join('')),
    row('Of', reuse.conversation && reuse.conversation !== conversation ? link(reuse.conversation) : null),
    row('Waited', timings.queue_ms === undefined ? null : duration(timings.queue_ms)),
    row('Prompt', timings.prompt_ms === undefined ? null
      : `${plural(reuse.tokens_read, 'token')} read in ${duration(timings.prompt_ms)}` +
        (reuse.tokens_read >= 16 ? `, ${speed(timings.prompt_per_second)}` : '')),
    row('Saved', saved === null ? null : `about ${duration(saved)} of reading, at this speed`),
    row('Reply', timings.predicted_n === undefined ? null
      : `${plural(timings.predicted_n, 'token')} in ${duration(timings.predicted_ms)}` +
        (timings.predicted_per_second > 0 ? `, ${speed(timings.predicted_per_second)}` : '')),
    row('Guesses', timings.draft_n > 0
      ? `${count(timings.draft_n_accepted)} of ${count(timings.draft_n)} right` : null),
    row('Ended by', finish), row('Seed', seed),
    row('Conversation', conversation ? link(conversation) : null));
}

const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}.` : '');

// Every prompt begins alike, and ends with what opens the reply: so few tokens are said, but are no
// news.
const FEW = 8;

// The result in a few words: good news, bad news, or neither.
function verdict({ again, reused }, limit) {
  if (again === 1 && limit === 'whole_prompt') {
    return { tone: 'good', text: 'Only the last token read again.' };
  }
  if (again > 0) {
    return { tone: again > FEW ? 'again' : 'plain', text: `${plural(again, 'token')} read again.` };
  }
  return reused > 0 ? { tone: 'good', text: 'Nothing read again.' }
    : { tone: 'plain', text: 'All of it is new.' };
}

// `meta` is what the last event of a reply says { reuse, timings, seed, conversation, finish }.
export function reuseView(meta) {
  const { reuse, timings } = meta;
  const parts = partsOf(reuse);
  const source = clean(reuse.source);
  const { tone, text } = verdict(parts, reuse.limit);
  const label = `${percent(parts.reused, parts.total)} of ${count(parts.total)} tokens reused, ` +
    `${count(parts.again)} read again, ${count(parts.fresh)} new`;
  const restored = reuse.restore_ms > 0 ? ` in ${duration(reuse.restore_ms)}` : '';
  return h('div.reuse', { role: 'group', 'aria-label': 'Reuse of the prompt' },
    h(`div.reuse-head.source-${source}`,
      h('span.share', parts.reused > 0 || parts.again > 0 ? percent(parts.reused, parts.total) : 'New'),
      h('span.what', parts.reused > 0 || parts.again > 0 ? 'reused' : 'prompt'),
      parts.reused > 0 ? h('span.from', `${plural(parts.reused, 'token')}, ` +
        `${SOURCES[source].name === 'RAM' ? 'RAM' : SOURCES[source].name.toLowerCase()}${restored}`) : null,
      h('span.cost', parts.again > 0 ? h(`span.${tone}`, `${count(parts.again)} again`) : null,
        h('span', `${count(parts.fresh)} new`),
        timings?.prompt_ms === undefined ? null : h('span', duration(timings.prompt_ms)))),
    bar(source, parts, reuse.first_difference, label),
    h('p.reuse-why', h('b', { class: tone }, text), ' ', sentence(reuse.reason)),
    h('details', h('summary', 'Timings and details'), details(meta)));
}

export function reuseSentence({ reuse }) {
  const parts = partsOf(reuse);
  return `${percent(parts.reused, parts.total)} of the prompt was reused. ${verdict(parts, reuse.limit).text} ` +
    sentence(reuse.reason);
}

export const legend = (names) => h('ul.legend', names.map((name) =>
  h(`li.source-${name}`, h('span.swatch'), SOURCES[name]?.name ?? PARTS[name])));
