// Building elements. Text only ever becomes text nodes: nothing here, or anywhere in this page,
// parses markup.

const SVG = 'http://www.w3.org/2000/svg';

function apply(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) {
      element.addEventListener(name.slice(2), value);
    } else if (name === 'class') {
      element.classList.add(...value.split(' '));
    } else if (name === 'style') {
      for (const [key, part] of Object.entries(value)) element.style.setProperty(key, part);
    } else if (name === 'dataset') {
      Object.assign(element.dataset, value);
    } else if (name === 'value' || name === 'checked' || name === 'disabled' || name === 'open' ||
               name === 'hidden' || name === 'selected') {
      element[name] = value;
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
}

function build(element, rest) {
  for (const part of rest.flat(Infinity)) {
    if (part === undefined || part === null || part === false) continue;
    if (part instanceof Node) {
      element.append(part);
    } else if (typeof part === 'object') {
      apply(element, part);
    } else {
      element.append(String(part));
    }
  }
  return element;
}

// h('button.primary#send', { type: 'button', onclick }, 'Send'): attributes and children in any
// order; null and false are left out.
export function h(selector, ...rest) {
  const [, tag, more] = selector.match(/^([a-z0-9-]*)(.*)$/);
  const element = document.createElement(tag || 'div');
  for (const [, kind, name] of more.matchAll(/([.#])([^.#]+)/g)) {
    if (kind === '.') element.classList.add(name);
    else element.id = name;
  }
  return build(element, rest);
}

export function svg(tag, ...rest) {
  const [name, ...classes] = tag.split('.');
  const element = document.createElementNS(SVG, name);
  if (classes.length > 0) element.setAttribute('class', classes.join(' '));
  return build(element, rest);
}

export const $ = (selector, root = document) => root.querySelector(selector);

// Only when it differs, so that a selection stays.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// New children for `element`; the focus stays on what has the same data-key.
export function replaceKeepingFocus(element, children) {
  const focused = element.contains(document.activeElement)
    ? document.activeElement.closest('[data-key]')?.dataset.key : null;
  element.replaceChildren(...children);
  if (focused) $(`[data-key="${CSS.escape(focused)}"]`, element)?.focus({ preventScroll: true });
}

// Tells screen readers, once.
export function announce(text) {
  const announcer = $('#announcer');
  announcer.textContent = '';
  setTimeout(() => { announcer.textContent = text; }, 50);
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Not a secure context (plain HTTP from another machine).
    const area = h('textarea', { value: text, class: 'visually-hidden' });
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    return copied;
  }
}
