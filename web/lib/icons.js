import { svg } from './dom.js';

// 24 x 24 outlines.
const PATHS = {
  chat: 'M4 5.5h16v11H9.5L5 20v-3.5H4z',
  conversations: 'M4 6h16M4 12h16M4 18h10M19 16v5M16.5 18.5h5',
  monitor: 'M3.5 12h4l2.5-7 4 14 2.5-7h4',
  about: 'M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17zM12 11v5M12 7.8v.2',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.5V5M12 19v2.5M2.5 12H5M19 12h2.5M5.3 5.3 7 7M17 17l1.7 1.7M5.3 18.7 7 17M17 7l1.7-1.7',
  moon: 'M19.5 14.2A8 8 0 0 1 9.8 4.5a8 8 0 1 0 9.7 9.7z',
  auto: 'M12 3.5a8.5 8.5 0 1 0 0 17zM12 3.5a8.5 8.5 0 0 1 0 17',
  send: 'M12 19V5.5M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  copy: 'M9 9h11v11H9zM15 9V4H4v11h5',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  edit: 'M4 20h4L19.5 8.5l-4-4L4 16zM13.5 6.5l4 4',
  retry: 'M5 12a7 7 0 1 0 2.2-5.1M4.5 4v4.5H9',
  left: 'M14.5 6l-6 6 6 6',
  right: 'M9.5 6l6 6-6 6',
  down: 'M6 9.5l6 6 6-6',
  plus: 'M12 5v14M5 12h14',
  close: 'M6 6l12 12M18 6L6 18',
  menu: 'M4 7h16M4 12h16M4 17h16',
  sliders: 'M4 7h9M17 7h3M4 17h3M11 17h9M15 4.8v4.4M9 14.8v4.4',
  trash: 'M5 7h14M10 7V4.5h4V7M7 7l.8 12.5h8.4L17 7M10.5 10.5v5.5M13.5 10.5v5.5',
  pin: 'M9 4h6l-.7 6 3.2 3.5H6.5L9.7 10zM12 13.5V20.5',
  fork: 'M7 4v16M7 14c0-4 10-2 10-7M17 7V4M14.5 6.5 17 4l2.5 2.5',
  save: 'M12 4v11M7 10.5l5 5 5-5M5 20h14',
  export: 'M12 15.5V4M7.5 8.5 12 4l4.5 4.5M5 14v6h14v-6',
  import: 'M12 4v11.5M7.5 11l4.5 4.5 4.5-4.5M5 14v6h14v-6',
  key: 'M14.5 9.5a4 4 0 1 0-3.3 3.9L13 15h2.5v2.5H18V20h3v-3l-6.8-6.8zM9 9v.1',
  tool: 'M14.5 6.5a4 4 0 0 1 5-1l-2.7 2.7 1.5 1.5L21 7a4 4 0 0 1-5.5 4.7L8 19.2a2 2 0 0 1-2.9-2.9l7.5-7.5a4 4 0 0 1 1.9-2.3z',
  thought: 'M9 18.5h6M10 21h4M12 3.5a6 6 0 0 0-3.5 10.9c.6.5 1 1.2 1 2v.1h5v-.1c0-.8.4-1.5 1-2A6 6 0 0 0 12 3.5z',
  more: 'M6 12h.01M12 12h.01M18 12h.01',
};

// Decoration: what a control does is said by its label.
export function icon(name, size = 18) {
  return svg('svg.icon', { viewBox: '0 0 24 24', width: size, height: size, fill: 'none',
    stroke: 'currentColor', 'stroke-width': name === 'more' ? 3 : 1.7, 'stroke-linecap': 'round',
    'stroke-linejoin': 'round', 'aria-hidden': 'true' }, svg('path', { d: PATHS[name] }));
}
