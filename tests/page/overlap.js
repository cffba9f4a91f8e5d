// Pairs of texts in one chart whose boxes lie over each other, and texts that leave their chart.
(() => {
  const bad = [];
  for (const chart of document.querySelectorAll('.chart svg')) {
    const outer = chart.getBoundingClientRect();
    const texts = [...chart.querySelectorAll('text')].map((text) => ({ text: text.textContent, box: text.getBoundingClientRect() }));
    texts.forEach(({ text, box }, i) => {
      if (box.left < outer.left - 1 || box.right > outer.right + 1) bad.push(`${text} leaves the chart`);
      for (const other of texts.slice(i + 1)) {
        const over = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left) > 1 &&
          Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top) > 4;
        if (over) bad.push(`${text} / ${other.text}`);
      }
    });
  }
  return bad;
})()
