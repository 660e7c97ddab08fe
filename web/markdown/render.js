// Markdown as elements. Built node by node: text of a model is never parsed as markup.

import { copyText, h } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { highlight } from './highlight.js';
import { parseInline } from './inline.js';
import { parseMarkdown } from './parse.js';

function inlineNode(node) {
  if (typeof node === 'string') return node;
  switch (node.type) {
    case 'code': return h('code', node.text);
    case 'br': return h('br');
    case 'link':
      return h('a', { href: node.href, target: '_blank', rel: 'noopener noreferrer' },
        node.children.map(inlineNode));
    default: return h(node.type, node.children.map(inlineNode));
  }
}

const inline = (text) => parseInline(text).map(inlineNode);

export function codeBlock(text, language) {
  const copy = h('button.icon-button', { type: 'button', 'aria-label': 'Copy the code',
    title: 'Copy' }, icon('copy', 15));
  copy.addEventListener('click', async () => {
    if (!await copyText(text)) return;
    copy.replaceChildren(icon('check', 15));
    setTimeout(() => copy.replaceChildren(icon('copy', 15)), 1500);
  });
  const pieces = highlight(text, language)
    .map(([kind, part]) => (kind ? h(`span.tok-${kind}`, part) : part));
  return h('div.code-block', h('header', h('span', language || 'code'), copy),
    h('pre', { tabindex: 0 }, h('code', pieces)));
}

function listItem(item, loose) {
  const blocks = item.blocks.map((block) =>
    (block.type === 'paragraph' && !loose ? inline(block.text) : blockNode(block)));
  if (!item.task) return h('li', blocks);
  return h('li.task', h('input', { type: 'checkbox', checked: item.done, disabled: true }), ' ',
    blocks);
}

function blockNode(block) {
  switch (block.type) {
    case 'heading': return h(`h${Math.min(block.level, 4)}`, inline(block.text));
    case 'code': return codeBlock(block.text, block.language);
    case 'quote': return h('blockquote', block.blocks.map(blockNode));
    case 'rule': return h('hr');
    case 'list':
      return h(block.ordered ? 'ol' : 'ul', block.ordered && block.start !== 1
        ? { start: block.start } : null, block.items.map((item) => listItem(item, block.loose)));
    case 'table': {
      const cell = (tag, text, i) => h(tag, { style: { 'text-align': block.align[i] } }, inline(text));
      return h('div.table-scroll', h('table',
        h('thead', h('tr', block.head.map((text, i) => cell('th', text, i)))),
        h('tbody', block.rows.map((row) => h('tr', row.map((text, i) => cell('td', text, i)))))));
    }
    default: return h('p', inline(block.text));
  }
}

// A text that may grow: what is appended can change the last block, and the one before it when the
// last line turns out to belong to that; so only those two are parsed and built again.
export class MarkdownView {
  constructor() {
    this.element = h('div.markdown', { dir: 'auto' });
    this.settled = '';  // the text before the last two blocks
    this.nSettled = 0;
  }

  set(text) {
    if (!text.startsWith(this.settled)) {
      this.settled = '';
      this.nSettled = 0;
    }
    while (this.element.children.length > this.nSettled) this.element.lastElementChild.remove();
    const tail = text.slice(this.settled.length);
    const blocks = parseMarkdown(tail);
    this.element.append(...blocks.map(blockNode));
    if (blocks.length < 3) return;
    let at = 0;
    for (let line = 0; line < blocks.at(-2).line; line += 1) at = tail.indexOf('\n', at) + 1;
    this.settled += tail.slice(0, at);
    this.nSettled += blocks.length - 2;
  }
}
