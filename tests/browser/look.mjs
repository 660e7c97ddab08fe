// How the page looks and whether everybody can use it: contrast, names of controls, sizes.

// In the page: texts whose colour is too close to what is behind them (WCAG AA).
export const poorContrast = (page) => page.evaluate(() => {
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = 1;
  const context = canvas.getContext('2d', { willReadFrequently: true });
  const rgba = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92
      : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (element.closest('.visually-hidden, :disabled, .actions, .skip, svg, #toasts, option, script, noscript')) continue;
    const style = getComputedStyle(element);
    const back = behind(element), front = over(rgba(style.color), back);
    const [light, dark] = [luminance(front), luminance(back)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const big = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700);
    if (ratio < (big ? 3 : 4.5)) poor.push(`${ratio.toFixed(2)} ${element.className}: ${node.data.trim().slice(0, 40)}`);
  }
  return [...new Set(poor)];
});

// In the page: controls that a screen reader could not name, or that have no size to be touched.
export const namelessControls = (page) => page.evaluate(() =>
  [...document.querySelectorAll('button, a[href], input, select, textarea, summary, [role=img]')]
    .filter((element) => element.checkVisibility() && !element.matches('[aria-hidden=true]'))
    .filter((element) => {
      const label = element.getAttribute('aria-label') ?? element.closest('label')?.textContent ?? '';
      return !`${label}${element.textContent}${element.title}`.trim();
    }).map((element) => element.cloneNode(false).nodeName + element.className));

// Whether the page is wider than the screen.
export const tooWide = (page) => page.evaluate(() =>
  [document.documentElement, ...document.querySelectorAll('.panel:not([hidden])')]
    .some((element) => element.scrollWidth > element.clientWidth + 1));
