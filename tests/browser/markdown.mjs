// The page's Markdown, without a browser: node markdown.mjs. Ends with 1 when a check fails.
import { highlight } from '../../web/markdown/highlight.js';
import { parseInline, safeHref } from '../../web/markdown/inline.js';
import { parseMarkdown } from '../../web/markdown/parse.js';

let failures = 0;
function check(name, condition, seen) {
  console.log(`${condition ? 'ok  ' : 'FAIL'} ${name}`);
  if (condition) return;
  failures += 1;
  console.log('     saw:', JSON.stringify(seen)?.slice(0, 2000));
}
const same = (name, seen, wanted) =>
  check(name, JSON.stringify(seen) === JSON.stringify(wanted), seen);

const strong = (...children) => ({ type: 'strong', children });
const em = (...children) => ({ type: 'em', children });
const link = (href, ...children) => ({ type: 'link', href, children });

// Blocks without what is only for building them again.
const bare = (blocks) => blocks.map(({ raw, line, ...block }) => ({ ...block,
  ...(block.blocks ? { blocks: bare(block.blocks) } : {}),
  ...(block.items ? { items: block.items.map((i) => ({ ...i, blocks: bare(i.blocks) })) } : {}) }));
const blocks = (text) => bare(parseMarkdown(text));
const paragraph = (text) => ({ type: 'paragraph', text });
const item = (...inner) => ({ task: false, done: false, blocks: inner });

function testInline() {
  same('emphasis nests', parseInline('a **b *c* d** e'), ['a ', strong('b ', em('c'), ' d'), ' e']);
  same('three stars are both', parseInline('***x***'), [em(strong('x'))]);
  same('a name with underscores is no emphasis', parseInline('snake_case_word'), ['snake_case_word']);
  same('what is not closed stays text', parseInline('2 * 3 ** 4 [x'), ['2 * 3 ** 4 [x']);
  same('code is taken as it is', parseInline('`a *b* \\`'), [{ type: 'code', text: 'a *b* \\' }]);
  same('two ticks hold one', parseInline('``a`b``'), [{ type: 'code', text: 'a`b' }]);
  same('a backslash makes text', parseInline('\\*a\\*'), ['*a*']);
  same('a link', parseInline('[a *b*](https://x.y/z_(q) "t")!'),
    [link('https://x.y/z_(q)', 'a ', em('b')), '!']);
  same('a bare address without the sentence\'s end', parseInline('See https://a.b/c.'),
    ['See ', link('https://a.b/c', 'https://a.b/c'), '.']);
  same('a picture is only a link', parseInline('![p](http://e.f/i.png)'),
    [link('http://e.f/i.png', 'p')]);
  same('markup is text', parseInline('<b onclick="x">y</b>'), ['<b onclick="x">y</b>']);
}

function testAddresses() {
  for (const bad of ['javascript:alert(1)', ' JaVaScRiPt:alert(1)', 'java\nscript:alert(1)',
    'data:text/html,x', 'vbscript:x', 'file:///etc/passwd', '//evil.example', '/x', 'x',
    'http://[', '\u0001javascript:alert(1)', 'blob:http://x/y']) {
    check(`no link to ${JSON.stringify(bad)}`, safeHref(bad) === null, safeHref(bad));
  }
  same('an unsafe link leaves its text', parseInline('[x](javascript:alert(1))'), ['x']);
  check('https is fine', safeHref('https://x.y/') === 'https://x.y/');
}

function testBlocks() {
  same('headings and paragraphs', blocks('# T #\n\none\ntwo\n## U'), [
    { type: 'heading', level: 1, text: 'T' }, paragraph('one\ntwo'),
    { type: 'heading', level: 2, text: 'U' }]);
  same('code keeps every character', blocks('```js\n\tlet a = 1;\n\n  b();\n```\nc'), [
    { type: 'code', language: 'js', text: '\tlet a = 1;\n\n  b();' }, paragraph('c')]);
  same('code that is still coming', blocks('~~~\nx\n```'),
    [{ type: 'code', language: '', text: 'x\n```' }]);
  same('lists nest', blocks('- a\n- b\n  - c\n    more\n- d'), [{ type: 'list', ordered: false, start: 0,
    loose: false, items: [item(paragraph('a')), item(paragraph('b'), { type: 'list', ordered: false,
      start: 0, loose: false, items: [item(paragraph('c\nmore'))] }), item(paragraph('d'))] }]);
  same('a list begins where it says', blocks('3. a\n4. b')[0].start, 3);
  same('a year begins no list', blocks('born in\n1984. A good year'),
    [paragraph('born in\n1984. A good year')]);
  same('code in a list', blocks('1. a\n\n   ```\n   x\n   ```')[0].items[0].blocks[1],
    { type: 'code', language: '', text: 'x' });
  same('tasks', blocks('- [ ] a\n- [x] b')[0].items.map((i) => [i.task, i.done]),
    [[true, false], [true, true]]);
  same('a quote goes on', blocks('> a\nb\n\nc'),
    [{ type: 'quote', blocks: [paragraph('a\nb')] }, paragraph('c')]);
  same('a table', blocks('| a | b |\n|---|:-:|\n| 1 \\| 2 | x |\n| y |'), [{ type: 'table',
    align: ['left', 'center'], head: ['a', 'b'], rows: [['1 | 2', 'x'], ['y', '']] }]);
  same('a line of dashes', blocks('a\n\n---\nb'), [paragraph('a'), { type: 'rule' }, paragraph('b')]);
}

// Small numbers from a seed, so that a failure can be seen again.
function randomizer(seed) {
  let state = seed;
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

const PIECES = ['*', '**', '_', '`', '```', '[', '](', ')', '<', '>', '\n', '\n\n', '- ', '1. ', '> ', '|',
  '|---|', '# ', '    ', '\t', 'word', ' ', '\\', '!', '~~', 'https://a.b', 'javascript:', 'é', '😀', '"'];

function textOf(nodes) {
  return nodes.map((node) => (typeof node === 'string' ? node
    : node.type === 'br' ? '' : node.text ?? textOf(node.children))).join('');
}
function hrefsOf(nodes) {
  return nodes.flatMap((node) => (typeof node === 'string' || !node.children ? []
    : [...(node.href ? [node.href] : []), ...hrefsOf(node.children)]));
}
function eachText(list, visit) {
  for (const block of list) {
    if (block.text !== undefined && block.type !== 'code') visit(block.text);
    for (const text of [block.head ?? [], ...(block.rows ?? [])].flat()) visit(text);
    eachText(block.blocks ?? [], visit);
    for (const one of block.items ?? []) eachText(one.blocks, visit);
  }
}

function testAnything() {
  const seed = Date.now() % 1e9;
  const random = randomizer(seed);
  let words = true, safe = true, growing = true;
  for (let round = 0; round < 1500; round += 1) {
    const text = Array.from({ length: random(60) }, () => PIECES[random(PIECES.length)]).join('');
    const parsed = parseMarkdown(text);
    eachText(parsed, (inner) => {
      const nodes = parseInline(inner);
      // Letters are never lost (those of addresses may move into links).
      const letters = (s) => (s.match(/word|é|😀/gu) ?? []).length;
      words &&= letters(textOf(nodes)) + letters(hrefsOf(nodes).map(decodeURI).join(' ')) >=
        letters(inner.replace(/\]\(.*/s, ''));
      safe &&= hrefsOf(nodes).every((href) => /^(https?|mailto):/.test(href));
    });
    // What the view relies on: text that is appended changes the last two blocks at most.
    const more = parseMarkdown(text + PIECES[random(PIECES.length)]);
    growing &&= parsed.slice(0, -2).every((block, i) => block.raw === more[i]?.raw &&
      JSON.stringify(block) === JSON.stringify(more[i]));
    if (!words || !safe || !growing) {
      console.log('     seed', seed, JSON.stringify(text));
      break;
    }
  }
  check('no letter is lost, whatever comes', words);
  check('no link is unsafe, whatever comes', safe);
  check('what is appended changes the last two blocks at most', growing);
}

function testTime() {
  const hard = { delimiters: '*a _b '.repeat(10_000), brackets: '['.repeat(50_000),
    links: '[a]('.repeat(10_000), ticks: '`a``b'.repeat(10_000), angles: '<http://'.repeat(10_000),
    pipes: `${'|'.repeat(10_000)}\n${'|-'.repeat(10_000)}`, quotes: '> '.repeat(20_000),
    dashes: `${'- '.repeat(20_000)}x`, items: '- a\n'.repeat(5_000) };
  for (const [name, text] of Object.entries(hard)) {
    const begin = performance.now();
    eachText(parseMarkdown(text), parseInline);
    const ms = performance.now() - begin;
    check(`hostile ${name} take no minutes (${Math.round(ms)} ms)`, ms < 8000);
  }
}

function testHighlight() {
  const pieces = highlight("# c\ndef f(x): return 'a' + 1.5  # don't", 'python');
  const of = (kind) => pieces.filter(([k]) => k === kind).map(([, text]) => text);
  same('comments', of('c'), ['# c', "# don't"]);
  same('strings', of('s'), ["'a'"]);
  same('keywords', of('k'), ['def', 'return']);
  for (const [language, text] of [['js', 'a = `x\n${1}` /* "'], ['rust', "fn f<'a>() {}"], ['x', '<b>'],
    ['sql', 'SELECT 1 -- \''], ['json', '{"a": [1.5e3, null']]) {
    check(`${language}: every character is there`, highlight(text, language)
      .map(([, part]) => part).join('') === text);
  }
}

testInline();
testAddresses();
testBlocks();
testAnything();
testTime();
testHighlight();
process.exit(failures === 0 ? 0 : 1);
