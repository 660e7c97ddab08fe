// The frame: tabs, the server's state, colours. Each tab is a view with show(argument) and hide().

import { AboutView } from './about/view.js';
import { ChatView } from './chat/view.js';
import { ConversationsView } from './conversations/view.js';
import { ApiFailure } from './lib/api.js';
import { $, h, setText } from './lib/dom.js';
import { icon } from './lib/icons.js';
import { Sampler } from './monitor/sampler.js';
import { MonitorView } from './monitor/view.js';

const TABS = [['chat', 'Chat'], ['conversations', 'Conversations'], ['monitor', 'Monitor'],
  ['about', 'About']];

// --- Colours.

const THEMES = { auto: 'As the system', light: 'Light', dark: 'Dark' };
const THEME_ICONS = { auto: 'auto', light: 'sun', dark: 'moon' };

function setTheme(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === 'auto') localStorage.removeItem('holdfast.theme');
    else localStorage.setItem('holdfast.theme', theme);
  } catch { /* for this page only */ }
  const button = $('#theme');
  button.replaceChildren(icon(THEME_ICONS[theme]));
  button.setAttribute('aria-label', `Colours: ${THEMES[theme].toLowerCase()}. Change`);
  button.title = `Colours: ${THEMES[theme].toLowerCase()}`;
  button.onclick = () => {
    const names = Object.keys(THEMES);
    setTheme(names[(names.indexOf(theme) + 1) % names.length]);
  };
}

// --- Tabs.

const views = {};
let current = null;

function makeTabs() {
  const list = $('.tabs');
  for (const [name, label] of TABS) {
    list.append(h(`button.tab#tab-${name}`, { type: 'button', role: 'tab', tabindex: -1,
      'aria-controls': `panel-${name}`, onclick: () => { location.hash = `#${name}`; } },
    icon(name), h('span', label)));
  }
  list.addEventListener('keydown', (event) => {
    const names = TABS.map(([name]) => name);
    const at = names.indexOf(current);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const name = names[(to + names.length) % names.length];
    location.hash = `#${name}`;
    $(`#tab-${name}`).focus();
  });
}

function showTab() {
  const [wanted, ...rest] = location.hash.slice(1).split('/');
  const name = TABS.some(([tab]) => tab === wanted) ? wanted : 'chat';
  if (current !== null && current !== name) views[current].hide?.();
  const argument = rest.length > 0 ? decodeURIComponent(rest.join('/')) : null;
  for (const [tab] of TABS) {
    $(`#panel-${tab}`).hidden = tab !== name;
    const button = $(`#tab-${tab}`);
    button.setAttribute('aria-selected', String(tab === name));
    button.tabIndex = tab === name ? 0 : -1;
  }
  current = name;
  document.title = name === 'chat' ? 'holdfast' : `${TABS.find(([t]) => t === name)[1]} · holdfast`;
  sampler.setPace({ monitor: 1000, conversations: 2500 }[name] ?? 5000);
  views[name].open(argument);
}

// --- The server's state.

const sampler = new Sampler();

function showServer({ status, error, loading }) {
  const server = $('.server');
  const banner = $('#banner');
  let name = 'connecting', kind = '';
  banner.hidden = true;
  if (loading) {
    name = 'loading';
    kind = 'busy';
    banner.hidden = false;
    banner.classList.toggle('error', loading.failed);
    banner.replaceChildren(loading.text,
      loading.failed ? '' : h('progress', { max: 1, value: loading.fraction ?? 0 }));
  } else if (error) {
    kind = 'down';
    name = error instanceof ApiFailure && error.status === 401 ? 'key needed' : 'not reachable';
    banner.hidden = false;
    banner.classList.add('error');
    banner.replaceChildren(`${error.message[0].toUpperCase()}${error.message.slice(1)}. `,
      h('button.button', { type: 'button', onclick: () => sampler.again() }, 'Try again'));
  } else if (status) {
    kind = status.slots.length > 0 ? 'busy' : 'ready';
    name = status.model.id;
  }
  server.className = `server ${kind}`;
  if (!server.firstChild) server.append(h('span.dot'), h('span.name'));
  setText($('.name', server), name);
  server.title = kind === 'busy' ? 'The server is computing' : '';
}

function start() {
  let theme = 'auto';
  try { theme = localStorage.getItem('holdfast.theme') ?? 'auto'; } catch { /* as the system */ }
  setTheme(THEMES[theme] ? theme : 'auto');
  makeTabs();
  views.chat = new ChatView($('#panel-chat'));
  views.conversations = new ConversationsView($('#panel-conversations'), sampler);
  views.monitor = new MonitorView($('#panel-monitor'), sampler);
  views.about = new AboutView($('#panel-about'), sampler);
  sampler.subscribe(showServer);
  window.addEventListener('hashchange', showTab);
  showTab();
  sampler.start();
}

start();
