// The chats of this browser, newest first, with where the server has them.

import { h, replaceKeepingFocus } from '../lib/dom.js';
import { ago } from '../lib/format.js';
import { icon } from '../lib/icons.js';

const PLACES = { bound: 'being computed', ram: 'in RAM', disk: 'on disk', gone: 'not kept' };

// Where a conversation of the server's list is: bound, ram, disk, gone.
export function placeOf(conversation) {
  if (!conversation) return 'gone';
  if (conversation.bound) return 'bound';
  return conversation.in_ram ? 'ram' : 'disk';
}

export class Sidebar {
  // `actions`: { open(id), create(), rename(id), remove(id), download(id), close() }.
  constructor(actions) {
    this.actions = actions;
    this.list = h('ul.chat-list', { 'aria-label': 'Chats' });
    this.element = h('aside.chat-sidebar', { 'aria-label': 'Chats' },
      h('div.sidebar-top',
        h('button.button.primary.wide', { type: 'button', onclick: actions.create },
          icon('plus', 16), 'New chat'),
        h('button.icon-button.only-phone', { type: 'button', 'aria-label': 'Close the list',
          onclick: actions.close }, icon('close'))),
      this.list);
  }

  // `conversations`: of the server by id, or null when they are not known.
  show(chats, current, conversations) {
    replaceKeepingFocus(this.list, chats.map((chat) => this.item(chat, chat.id === current,
      conversations)));
    if (chats.length === 0) this.list.append(h('li.muted.small.none', 'Chats appear here.'));
  }

  item(chat, isCurrent, conversations) {
    const place = conversations && chat.conversations?.length > 0
      ? placeOf(conversations.get(chat.conversations[0])) : null;
    const action = (name, label, run) => h('button.icon-button', { type: 'button',
      'aria-label': `${label}: ${chat.title || 'New chat'}`, title: label,
      dataset: { key: `${name} ${chat.id}` }, onclick: () => run(chat.id) }, icon(name, 15));
    return h('li', { class: isCurrent ? 'current' : null },
      h('button.open', { type: 'button', 'aria-current': isCurrent ? 'true' : null,
        dataset: { key: chat.id }, onclick: () => this.actions.open(chat.id) },
      h('span.title', chat.title || 'New chat'),
      h('span.when', ago(Date.now() - chat.used),
        place ? h(`span.place.${place}`, PLACES[place]) : null)),
      h('span.item-actions', action('edit', 'Rename', this.actions.rename),
        action('save', 'Download as Markdown', this.actions.download),
        action('trash', 'Delete', this.actions.remove)));
  }
}
