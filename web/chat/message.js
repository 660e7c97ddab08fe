// One message on the screen. Made once for a node and updated as it grows.

import { copyText, h, setText } from '../lib/dom.js';
import { duration } from '../lib/format.js';
import { icon } from '../lib/icons.js';
import { readingView, reuseView } from '../lib/reuse.js';
import { MarkdownView, codeBlock } from '../markdown/render.js';

function iconButton(name, label, onclick) {
  return h('button.icon-button', { type: 'button', 'aria-label': label, title: label, onclick },
    icon(name, 16));
}

function copyButton(text) {
  const button = iconButton('copy', 'Copy', async () => {
    if (!await copyText(text())) return;
    button.replaceChildren(icon('check', 16));
    setTimeout(() => button.replaceChildren(icon('copy', 16)), 1500);
  });
  return button;
}

// "2 of 3", with arrows, for messages that have other versions.
function branchNav(position, total, step) {
  if (total < 2) return null;
  const button = (name, label, by) => {
    const made = iconButton(name, label, () => step(by));
    made.disabled = position + by < 0 || position + by >= total;
    return made;
  };
  return h('span.branches', { role: 'group', 'aria-label': 'Versions of this message' },
    button('left', 'Earlier version', -1), h('span.numeric', `${position + 1} of ${total}`),
    button('right', 'Later version', 1));
}

function prettyArguments(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;  // still coming, or not JSON
  }
}

// A user's message; `actions`: { edit(text), step(by) }, `version`: { position, total }.
export class UserMessage {
  constructor(node, version, actions) {
    this.node = node;
    this.actions = actions;
    this.element = h('article.message.user', { 'aria-label': 'You' });
    this.version = version;
    this.show();
  }

  show() {
    this.element.replaceChildren(
      h('div.bubble', { dir: 'auto' }, this.node.content),
      h('div.actions', branchNav(this.version.position, this.version.total, this.actions.step),
        copyButton(() => this.node.content),
        iconButton('edit', 'Edit, as a new branch', () => this.edit())));
  }

  edit() {
    const area = h('textarea', { value: this.node.content, 'aria-label': 'Edited message',
      rows: Math.min(12, this.node.content.split('\n').length + 1) });
    const done = () => {
      if (area.value.trim() !== '') this.actions.edit(area.value);
    };
    area.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        done();
      } else if (event.key === 'Escape') {
        event.stopPropagation();
        this.show();
      }
    });
    this.element.replaceChildren(h('div.editor', area, h('div.dialog-actions',
      h('button.button', { type: 'button', onclick: () => this.show() }, 'Cancel'),
      h('button.button.primary', { type: 'button', onclick: done }, 'Send as a new branch'))));
    area.focus();
  }

  update() {}
}

// What a tool gave back.
export class ToolMessage {
  constructor(node) {
    this.element = h('article.message.tool', { 'aria-label': 'Result of a tool' },
      h('div.tool-result', h('span.muted.small', `Result of ${node.name ?? 'the tool'}`),
        h('pre', { tabindex: 0 }, node.content)));
  }

  update() {}
}

// The model's message; `actions`: { retry(), step(by), toolResults(results) }.
export class AssistantMessage {
  constructor(node, version, actions) {
    this.node = node;
    this.actions = actions;
    this.markdown = new MarkdownView();
    this.thoughts = new MarkdownView();
    this.thinkingLabel = h('span');
    this.thinking = h('details.thinking', { hidden: true },
      h('summary', icon('thought', 16), this.thinkingLabel), this.thoughts.element);
    this.calls = h('div.tool-calls');
    this.reuse = h('div');
    this.error = h('p.message-error', { role: 'alert', hidden: true });
    this.waiting = h('p.waiting', { hidden: true }, h('span.dots', h('i'), h('i'), h('i')),
      h('span.visually-hidden', 'Waiting for the reply'));
    this.actionRow = h('div.actions', branchNav(version.position, version.total, actions.step),
      copyButton(() => this.node.content), iconButton('retry', 'Another reply, as a new branch',
        actions.retry));
    this.element = h('article.message.assistant', { 'aria-label': 'Reply' }, this.thinking,
      this.markdown.element, this.calls, this.waiting, this.error, this.reuse, this.actionRow);
    this.shown = {};
    this.update();
  }

  update() {
    const { node, shown } = this;
    const running = node.state === 'running';
    this.element.setAttribute('aria-busy', String(running));
    this.element.classList.toggle('running', running);
    this.showThinking(running);
    if (shown.content !== node.content) this.markdown.set(node.content);
    this.showToolCalls(running);
    this.waiting.hidden = !running || this.hasOutput() || Boolean(node.progress);
    if (shown.progress !== node.progress || shown.meta !== node.meta || shown.running !== running ||
        shown.output !== this.hasOutput()) this.showReuse(running);
    this.showEnd(running);
    this.actionRow.hidden = running;
    Object.assign(shown, { content: node.content, progress: node.progress, meta: node.meta, running,
      output: this.hasOutput() });
  }

  hasOutput() {
    return Boolean(this.node.content || this.node.reasoning || this.node.tool_calls);
  }

  showThinking(running) {
    const { node } = this;
    this.thinking.hidden = !node.reasoning?.trim();
    if (this.thinking.hidden) return;
    if (this.shown.reasoning !== node.reasoning) this.thoughts.set(node.reasoning);
    this.shown.reasoning = node.reasoning;
    const over = node.thoughtMs !== undefined;
    this.thinking.classList.toggle('active', running && !over);
    setText(this.thinkingLabel, over ? `Thought for ${duration(node.thoughtMs)}`
      : running ? 'Thinking' : 'Thought');
  }

  showToolCalls(running) {
    const calls = this.node.tool_calls ?? [];
    const key = JSON.stringify([calls, running, this.node.children.length > 0]);
    if (this.shown.calls === key) return;
    this.shown.calls = key;
    const answerable = !running && calls.length > 0 && this.node.children.length === 0 &&
      this.node.state === 'done';
    const results = [];
    const cards = calls.map((call) => {
      const result = h('textarea', { rows: 2, placeholder: 'Paste or type the result' });
      results.push({ call, result });
      return h('div.tool-call', h('header', icon('tool', 16), h('code', call.function.name)),
        codeBlock(prettyArguments(call.function.arguments), 'json'),
        answerable ? h('label.field', h('span', `Result of ${call.function.name}`), result) : null);
    });
    const send = () => this.actions.toolResults(results.map(({ call, result }) =>
      ({ call: call.id, name: call.function.name, content: result.value })));
    this.calls.replaceChildren(...cards, ...(answerable
      ? [h('button.button.primary', { type: 'button', onclick: send },
        calls.length > 1 ? 'Send the results' : 'Send the result')] : []));
  }

  showReuse(running) {
    const { node } = this;
    if (node.meta?.reuse) {
      this.reuse.replaceChildren(reuseView(node.meta));
    } else if (running && node.progress) {
      // The first token says that all of the prompt is there.
      const processed = this.hasOutput() ? node.progress.total : node.progress.processed;
      this.reuse.replaceChildren(readingView({ ...node.progress, processed }));
    } else {
      this.reuse.replaceChildren();
    }
  }

  showEnd(running) {
    const { node } = this;
    let text = '';
    if (node.state === 'failed') text = node.error ?? 'the reply failed';
    else if (node.state === 'stopped') text = 'Stopped. What was computed is kept.';
    else if (node.finish === 'length') text = 'Cut at the token limit.';
    this.error.hidden = running || text === '';
    this.error.classList.toggle('soft', node.state !== 'failed');
    setText(this.error, text);
  }
}
