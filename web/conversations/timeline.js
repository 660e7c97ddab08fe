// A conversation as a line: how far it is computed, how much of it is durable, and the places where
// it can be resumed.

import { h } from '../lib/dom.js';
import { count, plural } from '../lib/format.js';

const KINDS = {
  system: 'end of the system prompt and tools',
  before_reply: 'before a reply',
  turn_end: 'end of a turn',
  mark: 'a mark of the client',
  ladder: 'inside a long read',
};
export const kindName = (kind) => KINDS[kind] ?? String(kind).replaceAll('_', ' ');

export function timeline(conversation) {
  const { n_tokens: total, durable_tokens: durable, checkpoints } = conversation;
  const at = (position) => `${total > 0 ? Math.min(100, (100 * position) / total) : 0}%`;
  return h('div.timeline', { role: 'img', 'aria-label': `${count(total)} tokens, ` +
    `${count(durable)} of them on disk, ${plural(checkpoints.length, 'checkpoint')}` },
  h('i.line', { class: conversation.in_ram ? 'line in-ram' : 'line' }),
  durable > 0 ? h('i.durable', { style: { width: at(durable) } }) : null,
  checkpoints.map(({ position, kind }) => h('i', { class: `mark kind-${kind}`, style: { left: at(position) },
    title: `${count(position)}: ${kindName(kind)}` })));
}

export function timelineLegend(checkpoints) {
  const kinds = [...new Set(checkpoints.map(({ kind }) => kind))];
  return h('ul.legend', h('li', h('i.swatch.in-ram'), 'In RAM'), h('li', h('i.swatch.durable'), 'On disk'),
    kinds.map((kind) => h('li', h('i', { class: `swatch mark kind-${kind}` }), kindName(kind))));
}
