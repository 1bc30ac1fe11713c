/* How many texts were measured, and which stand out too little from what is behind them. */
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const behind = (node) => {
    if (!node) return read("Canvas");
    const own = read(getComputedStyle(node).backgroundColor);
    return own[3] === 1 ? own : over(own, behind(node.parentElement));
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const faint = [];
  let measured = 0;
  const check = (node, colour, ground, limit, text) => {
    measured += 1;
    const found = ratio(over(read(colour), ground), ground);
    if (found < limit) faint.push({ text, ratio: Number(found.toFixed(2)), limit });
  };
  for (const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walker.nextNode(); ) {
    const node = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    const box = node.getBoundingClientRect();
    if (!text || box.width < 2 || node.closest("[hidden], noscript, :disabled, [aria-disabled]")) continue;
    const style = getComputedStyle(node);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    check(node, node.closest("svg") ? style.fill : style.color, behind(node), large ? 3 : 4.5, text);
  }
  for (const node of document.querySelectorAll("textarea, select, input[type=number], .choices button")) {
    if (node.getBoundingClientRect().width) check(node, getComputedStyle(node).borderTopColor, behind(node.parentElement), 3, `edge of ${node.id}`);
  }
  return [measured, faint];
}
