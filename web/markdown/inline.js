// Markdown inside a block: text to a tree of plain objects. Knows no DOM.
//
// A node is a string or { type, children } with type strong, em, del, or { type: 'code', text },
// { type: 'link', href, children }, { type: 'br' }.

const PUNCTUATION = /[!-/:-@[-`{-~\p{P}\p{S}]/u;
const SPACE = /\s/;
const BARE_LINK = /^https?:\/\/[^\s<>"'`]+/i;
const ANGLE_LINK = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i;

// An address that a link may have; null for all others (scripts, files, data).
export function safeHref(address) {
  const trimmed = address.trim();
  if (!/^(https?:\/\/|mailto:)/i.test(trimmed)) return null;
  try {
    const url = new URL(trimmed);
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

// The destination of a link whose "](" has been seen: { address, length } with the ")" included.
function destination(text, at) {
  let i = at, address = '';
  while (text[i] === ' ') i += 1;
  if (text[i] === '<') {
    const end = text.indexOf('>', i);
    if (end < 0 || text.slice(i, end).includes('\n')) return null;
    address = text.slice(i + 1, end);
    i = end + 1;
  } else {
    let depth = 0;
    for (; i < text.length && !SPACE.test(text[i]); i += 1) {
      if (text[i] === '\\') i += 1;
      else if (text[i] === '(') depth += 1;
      else if (text[i] === ')' && (depth -= 1) < 0) break;
      if (depth > 16 || i - at > 2000) return null;
    }
    address = text.slice(at, i).trim();
  }
  const title = /^\s+(?:"[^"\n]*"|'[^'\n]*')/.exec(text.slice(i, i + 500));
  if (title) i += title[0].length;
  while (text[i] === ' ') i += 1;
  return text[i] === ')' ? { address, end: i + 1 } : null;
}

// Pieces: nodes, and delimiters that may turn out to be emphasis.
class Pieces {
  constructor() {
    this.list = [];
    this.text = '';
  }
  flush() {
    if (this.text !== '') this.list.push(this.text);
    this.text = '';
  }
  push(piece) {
    this.flush();
    this.list.push(piece);
  }
}

function delimiterRun(text, at) {
  const char = text[at];
  let end = at;
  while (text[end] === char) end += 1;
  const before = at > 0 ? text[at - 1] : ' ', after = end < text.length ? text[end] : ' ';
  const spaceBefore = SPACE.test(before), spaceAfter = SPACE.test(after);
  const left = !spaceAfter && (!PUNCTUATION.test(after) || spaceBefore || PUNCTUATION.test(before));
  const right = !spaceBefore && (!PUNCTUATION.test(before) || spaceAfter || PUNCTUATION.test(after));
  const word = char === '_';
  return { delimiter: char, n: end - at, length: end - at,
    opens: left && (!word || !right || PUNCTUATION.test(before)),
    closes: right && (!word || !left || PUNCTUATION.test(after)) };
}

const wrapped = (char, n) => (char === '~' ? 'del' : n === 2 ? 'strong' : 'em');

// Turns matching delimiters of `list` into nodes (CommonMark's algorithm, in linear time: what has
// been looked for in vain is not looked for again).
function resolveEmphasis(list) {
  const out = [];
  const floor = new Map();  // by kind of closer: openers below this index are of no use
  for (const piece of list) {
    if (typeof piece === 'string' || !piece.delimiter) {
      out.push(piece);
      continue;
    }
    const closer = { ...piece };
    while (closer.closes && closer.n > 0) {
      const kind = `${closer.delimiter}${closer.opens ? closer.length % 3 : ''}`;
      let i = out.length - 1;
      const stop = floor.get(kind) ?? 0;
      for (; i >= stop; i -= 1) {
        const opener = out[i];
        if (opener.delimiter !== closer.delimiter || !opener.opens || opener.n === 0) continue;
        if (closer.delimiter === '~' && opener.n !== closer.n) continue;
        const odd = (opener.closes || closer.opens) && (opener.length + closer.length) % 3 === 0 &&
          (opener.length % 3 !== 0 || closer.length % 3 !== 0);
        if (!odd || closer.delimiter === '~') break;
      }
      if (i < stop) {
        floor.set(kind, out.length);
        break;
      }
      const opener = out[i];
      const n = closer.delimiter === '~' ? closer.n : Math.min(2, opener.n, closer.n);
      const children = out.splice(i + 1).map(asText);
      opener.n -= n;
      closer.n -= n;
      if (opener.n === 0) out.pop();
      for (const [key, value] of floor) floor.set(key, Math.min(value, out.length));
      out.push({ type: wrapped(closer.delimiter, n), children: joined(children) });
    }
    if (closer.n > 0) out.push(closer);
  }
  return joined(out.map(asText));
}

// Neighbouring texts as one.
function joined(nodes) {
  const out = [];
  for (const node of nodes) {
    if (typeof node === 'string' && typeof out.at(-1) === 'string') out.push(out.pop() + node);
    else out.push(node);
  }
  return out;
}

const asText = (piece) => (piece.delimiter ? piece.delimiter.repeat(piece.n) : piece);

export function parseInline(text) {
  const stack = [{ pieces: new Pieces(), at: -1 }];  // open brackets, the outermost is none
  const top = () => stack[stack.length - 1].pieces;
  const noTicks = new Set();  // lengths of backtick runs that have no end
  for (let i = 0; i < text.length;) {
    const char = text[i];
    if (char === '\\' && i + 1 < text.length) {
      if (text[i + 1] === '\n') top().push({ type: 'br' });
      else top().text += /[!-/:-@[-`{-~]/.test(text[i + 1]) ? text[i + 1] : char + text[i + 1];
      i += 2;
    } else if (char === '`') {
      const ticks = /^`+/.exec(text.slice(i, i + 100))[0];
      let end = noTicks.has(ticks.length) ? -1 : i + ticks.length;
      while (end >= 0) {
        end = text.indexOf(ticks, end);
        if (end < 0 || text[end + ticks.length] !== '`') break;
        while (text[end] === '`') end += 1;
      }
      if (end < 0) {
        noTicks.add(ticks.length);
        top().text += ticks;
        i += ticks.length;
      } else {
        let code = text.slice(i + ticks.length, end).replace(/\n/g, ' ');
        if (/^ .*[^ ].* $|^ [^ ] $/.test(code)) code = code.slice(1, -1);
        top().push({ type: 'code', text: code });
        i = end + ticks.length;
      }
    } else if (char === '*' || char === '_' || char === '~') {
      const run = delimiterRun(text, i);
      if (char === '~' && run.n !== 2) top().text += '~'.repeat(run.n);
      else top().push(run);
      i += run.n;
    } else if (char === '[' || (char === '!' && text[i + 1] === '[')) {
      // A picture is shown as a link: nothing is fetched from anywhere.
      const open = char === '[' ? '[' : '![';
      if (stack.length < 32) stack.push({ pieces: new Pieces(), open });
      else top().text += open;
      i += open.length;
    } else if (char === ']' && stack.length > 1) {
      const { pieces, open } = stack.pop();
      pieces.flush();
      const link = text[i + 1] === '(' ? destination(text, i + 2) : null;
      if (link) {
        const children = resolveEmphasis(pieces.list);
        const href = safeHref(link.address);
        if (href) top().push({ type: 'link', href, children: children.length ? children : [href] });
        else for (const child of children) top().push(child);
        i = link.end;
      } else {
        top().text += open;
        for (const piece of pieces.list) top().push(piece);
        top().text += ']';
        i += 1;
      }
    } else if (char === '<' && ANGLE_LINK.test(text.slice(i, i + 2000))) {
      const [whole, address] = ANGLE_LINK.exec(text.slice(i, i + 2000));
      const href = safeHref(address);
      top().push(href ? { type: 'link', href, children: [address.replace(/^mailto:/i, '')] } : whole);
      i += whole.length;
    } else if (char === 'h' && stack.length === 1 && (i === 0 || !/[\w/]/.test(text[i - 1])) &&
               BARE_LINK.test(text.slice(i, i + 2000))) {
      // Punctuation at the end belongs to the sentence.
      let address = BARE_LINK.exec(text.slice(i, i + 2000))[0].replace(/[.,:;!?*_~]+$/, '');
      if (address.endsWith(')') && !address.includes('(')) address = address.slice(0, -1);
      const href = safeHref(address);
      top().push(href ? { type: 'link', href, children: [address] } : address);
      i += address.length;
    } else if (char === '\n') {
      const pieces = top();
      if (/ {2,}$/.test(pieces.text)) {
        pieces.text = pieces.text.trimEnd();
        pieces.push({ type: 'br' });
      } else {
        pieces.text += '\n';
      }
      i += 1;
    } else {
      top().text += char;
      i += 1;
    }
  }
  while (stack.length > 1) {
    const { pieces, open } = stack.pop();
    pieces.flush();
    top().text += open;
    for (const piece of pieces.list) top().push(piece);
  }
  top().flush();
  return resolveEmphasis(stack[0].pieces.list);
}
