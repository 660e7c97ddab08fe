// Markdown to blocks, as plain objects. Knows no DOM; every input gives some blocks, unfinished
// ones included (a reply that is still coming).
//
// { type, raw, line (its first) } and: paragraph, heading (level) { text }; code { language, text }; quote { blocks };
// list { ordered, start, loose, items: [{ task, done, blocks }] }; table { align, head, rows }; rule.

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\n]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}>[ ]?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:([ \t]+)(.*))?$/;
const TABLE_LINE = /^ {0,3}\|?(?:[ \t]*:?-+:?[ \t]*\|)+(?:[ \t]*:?-+:?[ \t]*)?$|^ {0,3}\|[ \t]*:?-+:?[ \t]*\|?$/;
const MAX_DEPTH = 12;  // of quotes and lists; deeper text stays a paragraph

// Tabs at a line's beginning are indentation.
const untab = (line) => line.replace(/^[ \t]*\t/, (lead) => lead.replaceAll('\t', '    '));
const blank = (line) => line === undefined || line.trim() === '';

function fenceOf(line) {
  const match = FENCE.exec(line);
  return match && !(match[1][0] === '`' && match[2].includes('`')) ? match : null;
}

function startsBlock(line, depth) {
  if (fenceOf(line) || HEADING.test(line) || RULE.test(line)) return true;
  if (depth >= MAX_DEPTH) return false;
  const item = ITEM.exec(line);
  // Only "1." interrupts a paragraph: a line may begin with a year.
  return QUOTE.test(line) || (item && item[4] && (!/\d/.test(item[2]) || /^1[.)]/.test(item[2])));
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, '').replace(/(^|[^\\])\|$/, '$1');
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, '|'));
}

const alignOf = (cell) =>
  (/^:.*:$/.test(cell) ? 'center' : cell.endsWith(':') ? 'right' : 'left');

class Parser {
  constructor(lines, depth) {
    this.lines = lines;
    this.depth = depth;
    this.at = 0;
    this.blocks = [];
  }

  parse() {
    while (this.at < this.lines.length) {
      const begin = this.at;
      const block = this.next();
      if (!block) continue;
      block.line = begin;
      block.raw = this.lines.slice(begin, this.at).join('\n');
      this.blocks.push(block);
    }
    return this.blocks;
  }

  next() {
    const line = this.lines[this.at];
    if (blank(line)) {
      this.at += 1;
      return null;
    }
    const fence = fenceOf(line);
    if (fence) return this.code(fence);
    const heading = HEADING.exec(line);
    if (heading) {
      this.at += 1;
      return { type: 'heading', level: heading[1].length, text: heading[2] ?? '' };
    }
    if (RULE.test(line)) {
      this.at += 1;
      return { type: 'rule' };
    }
    if (this.depth < MAX_DEPTH) {
      if (QUOTE.test(line)) return this.quote();
      if (ITEM.test(line)) return this.list();
    }
    if (line.includes('|') && TABLE_LINE.test(this.lines[this.at + 1] ?? '') &&
        cells(line).length === cells(this.lines[this.at + 1]).length) {
      return this.table();
    }
    return this.paragraph();
  }

  code([line, fence, info]) {
    const indent = /^ */.exec(line)[0].length;
    const end = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`);
    const text = [];
    this.at += 1;
    while (this.at < this.lines.length && !end.test(this.lines[this.at])) {
      text.push(this.lines[this.at].replace(new RegExp(`^ {0,${indent}}`), ''));
      this.at += 1;
    }
    if (this.at < this.lines.length) this.at += 1;
    return { type: 'code', language: info.trim().split(/\s/)[0], text: text.join('\n') };
  }

  quote() {
    const inner = [];
    while (this.at < this.lines.length) {
      const line = this.lines[this.at];
      if (QUOTE.test(line)) inner.push(line.replace(QUOTE, ''));
      else if (blank(line) || startsBlock(line, this.depth) || blank(inner.at(-1))) break;
      else inner.push(line);  // a paragraph that goes on
      this.at += 1;
    }
    return { type: 'quote', blocks: parseLines(inner, this.depth + 1) };
  }

  list() {
    const [, , first] = ITEM.exec(this.lines[this.at]);
    const kind = first.at(-1);
    const list = { type: 'list', ordered: /\d/.test(first), start: parseInt(first, 10) || 0,
      loose: false, items: [] };
    while (this.at < this.lines.length) {
      const match = ITEM.exec(this.lines[this.at]);
      if (!match || match[2].at(-1) !== kind || RULE.test(this.lines[this.at])) break;
      const lines = this.item(match);
      if (lines.at(-1) === '' && this.at < this.lines.length &&
          ITEM.exec(this.lines[this.at])?.[2].at(-1) === kind) list.loose = true;
      while (lines.at(-1) === '') lines.pop();
      const task = /^\[([ xX])\][ \t]+/.exec(lines[0] ?? '');
      if (task) lines[0] = lines[0].slice(task[0].length);
      const blocks = parseLines(lines, this.depth + 1);
      if (lines.includes('') && blocks.filter((b) => b.type === 'paragraph').length > 1) {
        list.loose = true;
      }
      list.items.push({ task: task !== null, done: task !== null && task[1] !== ' ', blocks });
    }
    return list;
  }

  // The lines of one item, without its indent.
  item([, lead, marker, space = '', text = '']) {
    const indent = lead.length + marker.length + (space.length > 4 || !text ? 1 : space.length);
    const lines = [(space.length > 4 ? space.slice(1) : '') + text];
    this.at += 1;
    while (this.at < this.lines.length) {
      const line = untab(this.lines[this.at]);
      const depth = /^ */.exec(line)[0].length;
      if (blank(line)) {
        // Two empty lines, or one before text that is not indented, end it.
        const after = this.lines.slice(this.at + 1, this.at + 3).find((l) => !blank(l));
        if (after === undefined && lines.at(-1) === '') break;
        lines.push('');
      } else if (depth >= indent) {
        lines.push(line.slice(indent));
      } else if (lines.at(-1) === '' || startsBlock(line, this.depth) || ITEM.test(line)) {
        break;
      } else {
        lines.push(line.trimStart());
      }
      this.at += 1;
    }
    return lines;
  }

  table() {
    const head = cells(this.lines[this.at]);
    const align = cells(this.lines[this.at + 1]).map(alignOf);
    this.at += 2;
    const rows = [];
    while (this.at < this.lines.length && this.lines[this.at].includes('|') &&
           !startsBlock(this.lines[this.at], this.depth)) {
      const row = cells(this.lines[this.at]);
      rows.push(head.map((_, i) => row[i] ?? ''));
      this.at += 1;
    }
    return { type: 'table', align, head, rows };
  }

  paragraph() {
    const lines = [this.lines[this.at]];
    this.at += 1;
    while (this.at < this.lines.length && !blank(this.lines[this.at]) &&
           !startsBlock(this.lines[this.at], this.depth)) {
      lines.push(this.lines[this.at]);
      this.at += 1;
    }
    return { type: 'paragraph', text: lines.map((line) => line.trimStart()).join('\n').trimEnd() };
  }
}

function parseLines(lines, depth) {
  return new Parser(lines, depth).parse();
}

export function parseMarkdown(text) {
  return parseLines(text.replace(/\r\n?/g, '\n').split('\n'), 0);
}
