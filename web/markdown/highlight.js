// Code to [kind, text] pieces: 'c' comment, 's' string, 'n' number, 'k' keyword, '' the rest. One
// scanner for the common families of languages; not exact, and never wrong about the text itself.

const words = (text) => new Set(text.split(' '));
const C_LIKE = 'auto break case catch class const continue default delete do else enum export ' +
  'extends false finally for if import in instanceof interface namespace new null nullptr private ' +
  'protected public return static struct super switch template this throw true try typedef typeof ' +
  'using var virtual void while async await function let of yield';
const FAMILIES = [
  { names: ['python', 'py'], line: ['#'], block: [['"""', '"""'], ["'''", "'''"]],
    keywords: words('and as assert async await break class continue def del elif else except False ' +
      'finally for from global if import in is lambda match None nonlocal not or pass raise return ' +
      'self True try while with yield') },
  { names: ['sh', 'bash', 'shell', 'zsh', 'console'], line: ['#'], block: [],
    keywords: words('case do done elif else esac export fi for function if in local return set then ' +
      'until while') },
  { names: ['rust', 'rs'], line: ['//'], block: [['/*', '*/']],
    keywords: words('as async await break const continue crate dyn else enum extern false fn for if ' +
      'impl in let loop match mod move mut pub ref return self Self static struct super trait true ' +
      'type unsafe use where while') },
  { names: ['go', 'golang'], line: ['//'], block: [['/*', '*/']],
    keywords: words('break case chan const continue default defer else fallthrough false for func go ' +
      'goto if import interface map nil package range return select struct switch true type var') },
  { names: ['sql'], line: ['--'], block: [['/*', '*/']], ignoreCase: true,
    keywords: words('add all alter and as asc between by case create delete desc distinct drop else ' +
      'end exists from full group having in index inner insert into is join left like limit not null ' +
      'on or order outer primary right select set table then union update values view when where') },
  { names: ['yaml', 'yml', 'toml', 'ini', 'make', 'makefile', 'dockerfile', 'cmake', 'ruby', 'rb'],
    line: ['#'], block: [], keywords: words('true false null yes no on off def end if else do') },
  { names: ['html', 'xml', 'svg'], line: [], block: [['<!--', '-->']], keywords: new Set() },
  { names: ['css', 'scss'], line: [], block: [['/*', '*/']], keywords: words('important media') },
  { names: ['json', 'json5', 'jsonc'], line: ['//'], block: [['/*', '*/']],
    keywords: words('true false null') },
  { names: ['text', 'txt', 'plain', 'diff', 'markdown', 'md', 'log'], plain: true },
  { names: ['js', 'javascript', 'ts', 'typescript', 'jsx', 'tsx', 'c', 'cpp', 'c++', 'cc', 'h', 'hpp',
    'java', 'kotlin', 'swift', 'php', 'cs', 'csharp', 'scala', 'dart', 'zig'],
  line: ['//'], block: [['/*', '*/']], keywords: words(`${C_LIKE} int float double bool char long ` +
      'short unsigned signed size_t string boolean number fun val func final override guard') },
];

export function highlight(text, language) {
  const family = FAMILIES.find((f) => f.names.includes(language.toLowerCase()));
  if (!family || family.plain || text.length > 60_000) return [['', text]];
  const pieces = [];
  const push = (kind, part) => {
    if (part === '') return;
    if (pieces.length > 0 && pieces.at(-1)[0] === kind) pieces.at(-1)[1] += part;
    else pieces.push([kind, part]);
  };
  const token = /([A-Za-z_$][\w$]*)|(\d[\w.]*)|(["'`])|([\s\S])/y;
  for (let i = 0; i < text.length;) {
    const block = family.block.find(([open]) => text.startsWith(open, i));
    if (block) {
      const end = text.indexOf(block[1], i + block[0].length);
      const stop = end < 0 ? text.length : end + block[1].length;
      push(block[0].startsWith('/') || block[0].startsWith('<') ? 'c' : 's', text.slice(i, stop));
      i = stop;
      continue;
    }
    if (family.line.some((mark) => text.startsWith(mark, i)) &&
        (family.line[0] !== '#' || i === 0 || /\s/.test(text[i - 1]))) {
      const end = text.indexOf('\n', i);
      push('c', text.slice(i, end < 0 ? text.length : end));
      i = end < 0 ? text.length : end;
      continue;
    }
    token.lastIndex = i;
    const [all, word, number, quote] = token.exec(text);
    if (quote) {
      let end = i + 1;
      while (end < text.length && text[end] !== quote && (quote === '`' || text[end] !== '\n')) {
        end += text[end] === '\\' ? 2 : 1;
      }
      // An apostrophe, not a string.
      const stop = Math.min(end + 1, text.length);
      if (quote === "'" && text[end] !== quote) push('', quote);
      else push('s', text.slice(i, stop));
      i = quote === "'" && text[end] !== quote ? i + 1 : stop;
      continue;
    }
    if (word) push(family.keywords.has(family.ignoreCase ? word.toLowerCase() : word) ? 'k' : '', all);
    else push(number ? 'n' : '', all);
    i += all.length;
  }
  return pieces;
}
