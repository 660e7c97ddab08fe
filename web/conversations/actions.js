// What can be done to a conversation of the server.

import { ApiFailure, del, hasKey, post, request } from '../lib/api.js';
import { askText, confirmAction, toast } from '../lib/dialogs.js';
import { h } from '../lib/dom.js';

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

function startDownload(url, name) {
  const link = h('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

// A session file. Without a key the browser writes it straight to disk; with one it has to pass
// through the page, because links carry no headers.
export function exportSession(id) {
  const name = `${id}.hfs`;
  return attempt(null, async () => {
    const response = await request(pathOf(id, 'export'), { method: hasKey() ? 'GET' : 'HEAD' });
    if (!hasKey()) {
      startDownload(pathOf(id, 'export'), name);
      return;
    }
    const url = URL.createObjectURL(await response.blob());
    startDownload(url, name);
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  });
}

export const importSession = (file) => attempt(`Imported ${file.name}.`, () =>
  request('v1/conversations/import', { method: 'POST', body: file,
    headers: { 'Content-Type': 'application/octet-stream' } }));
