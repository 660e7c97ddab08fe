// Where a message is written: grows with its text; Enter sends, Shift+Enter breaks the line.

import { h } from '../lib/dom.js';
import { icon } from '../lib/icons.js';

export class Composer {
  // `actions`: { send(text), stop() }.
  constructor(actions) {
    this.actions = actions;
    this.running = false;
    this.area = h('textarea', { rows: 1, placeholder: 'Write a message', 'aria-label': 'Message',
      enterkeyhint: 'send', dir: 'auto' });
    this.button = h('button.send', { type: 'submit' });
    this.element = h('form.composer', { onsubmit: (event) => {
      event.preventDefault();
      if (this.running) actions.stop();
      else this.send();
    } }, h('div.box', this.area, this.button));
    this.area.addEventListener('input', () => this.fit());
    this.area.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.running) this.send();
    });
    this.setRunning(false);
  }

  fit() {
    this.area.style.height = 'auto';
    this.area.style.height = `${Math.min(this.area.scrollHeight, 220)}px`;
    this.button.disabled = !this.running && this.area.value.trim() === '';
  }

  send() {
    const text = this.area.value.trim();
    if (text === '') return;
    this.area.value = '';
    this.fit();
    this.actions.send(text);
  }

  setRunning(running) {
    this.running = running;
    this.button.classList.toggle('stopping', running);
    this.button.setAttribute('aria-label', running ? 'Stop the reply' : 'Send');
    this.button.title = running ? 'Stop (Esc)' : 'Send (Enter)';
    this.button.replaceChildren(icon(running ? 'stop' : 'send', 20));
    this.fit();
  }

  focus() { this.area.focus({ preventScroll: true }); }
}
