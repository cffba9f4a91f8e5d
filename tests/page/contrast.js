// Texts whose contrast with their background is under 4.5 to 1 (WCAG 2.1, 1.4.3).
(() => {
  const parse = (color) => (color.match(/[\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const background = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length >= 3 && color[3] !== 0) return color;
    }
    return [255, 255, 255];
  };
  const faint = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const box = element.getBoundingClientRect();
    if (!walker.currentNode.data.trim() || box.width < 2 || element.closest('script, style, noscript')) continue;
    const style = getComputedStyle(element);
    const color = parse(element.ownerSVGElement ? style.fill : style.color);
    const [low, high] = [luminance(color), luminance(background(element))].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (!(ratio >= 4.5)) faint.add(`${walker.currentNode.data.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return [...faint];
})()
