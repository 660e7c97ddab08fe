import { $, h } from './dom.js';
import { icon } from './icons.js';

// A line that goes away by itself.
export function toast(text, kind = 'info') {
  const line = h(`div.toast.${kind}`, text);
  $('#toasts').append(line);
  setTimeout(() => line.remove(), kind === 'error' ? 9000 : 4000);
}

// The element of a modal dialog; its promise has the value that close() was given, null when it was
// dismissed. The browser keeps focus inside and gives it back.
export function openDialog(title, makeBody) {
  return new Promise((resolve) => {
    let result = null;
    const dialog = h('dialog.dialog', { 'aria-label': title });
    const close = (value) => { result = value; dialog.close(); };
    dialog.append(
      h('header', h('h2', title), h('button.icon-button', { type: 'button', 'aria-label': 'Close',
        onclick: () => close(null) }, icon('close'))),
      makeBody(close));
    dialog.addEventListener('close', () => { dialog.remove(); resolve(result); });
    dialog.addEventListener('mousedown', (event) => {
      if (event.target === dialog) close(null);  // beside it
    });
    document.body.append(dialog);
    dialog.showModal();
    $('[autofocus]', dialog)?.focus();
  });
}

export async function confirmAction(title, text, action) {
  return await openDialog(title, (close) => h('div',
    h('p', text),
    h('div.dialog-actions',
      h('button.button', { type: 'button', onclick: () => close(false) }, 'Cancel'),
      h('button.button.danger', { type: 'button', autofocus: true, onclick: () => close(true) },
        action)))) === true;
}

// One line of text, or null.
export async function askText(title, label, value, action) {
  return openDialog(title, (close) => {
    const input = h('input', { type: 'text', value, autofocus: true, autocomplete: 'off' });
    return h('form', { method: 'dialog', onsubmit: (event) => {
      event.preventDefault();
      close(input.value.trim() || null);
    } },
    h('label.field', h('span', label), input),
    h('div.dialog-actions',
      h('button.button', { type: 'button', onclick: () => close(null) }, 'Cancel'),
      h('button.button.primary', { type: 'submit' }, action)));
  });
}
