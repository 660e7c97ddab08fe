// What can be done to a conversation of the server.

import { ApiFailure, del, post } from '../lib/api.js';
import { askText, confirmAction, toast } from '../lib/dialogs.js';

const pathOf = (id, action = '') =>
  `v1/conversations/${encodeURIComponent(id)}${action ? `/${action}` : ''}`;

async function attempt(done, work) {
  try {
    await work();
    if (done) toast(done);
    return true;
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    toast(error.message, 'error');
    return false;
  }
}

export const setPinned = (id, pinned) =>
  attempt(pinned ? 'Pinned: evicted last.' : 'No longer pinned.', () =>
    post(pathOf(id, pinned ? 'pin' : 'unpin')));

export const save = (id) => attempt('Saved: it survives power loss now.', () => post(pathOf(id, 'save')));

export async function fork(id) {
  const name = await askText('Fork the conversation', 'Name of the copy', `${id}-copy`, 'Fork');
  if (name === null) return false;
  return attempt('Forked: the copy shares everything it has in common.', () =>
    post(pathOf(id, 'fork'), { id: name }));
}

export async function remove(id) {
  if (!await confirmAction('Delete the conversation?', `${id} is removed from RAM and disk. The next ` +
    'prompt that begins like it is read again.', 'Delete')) return false;
  return attempt('Deleted.', () => del(pathOf(id)));
}
