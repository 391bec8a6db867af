"""Find text over text, and text beside the window, in a page that is open in a browser."""

from typing import Any

WIDTHS = (1440, 900, 768, 390)  # pixels: a desktop, two tablets, a phone

_PROBLEMS = """() => {
  const root = document.querySelector('dialog[open]') ?? document.body;
  const shown = (node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const crossing = (a, b) => ({
    left: Math.max(a.left, b.left), right: Math.min(a.right, b.right), top: Math.max(a.top, b.top), bottom: Math.min(a.bottom, b.bottom),
  });
  // What is seen of a box: that within all boxes around it that clip.
  const seen = (box, element) => {
    for (let node = element; node && node !== document.documentElement; node = node.parentElement) {
      const style = getComputedStyle(node);
      if (style.clipPath !== 'none') return { left: 0, right: 0, top: 0, bottom: 0 };
      if (style.overflowX !== 'visible' || style.overflowY !== 'visible') box = crossing(box, node.getBoundingClientRect());
    }
    return box;
  };
  const boxes = [];
  const add = (rectangle, element, text) => {
    const box = seen(rectangle, element);
    if (box.right - box.left > 1 && box.bottom - box.top > 1) boxes.push({ box, element, text: text.trim().slice(0, 40) });
  };
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.data.trim() || !shown(element) || element.closest('textarea, select, svg, script, style')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rectangle of range.getClientRects()) add(rectangle, element, node.data);
  }
  for (const field of root.querySelectorAll('textarea, select, button, img')) {
    if (shown(field)) add(field.getBoundingClientRect(), field, field.id || field.tagName);
  }
  // Where two boxes cross, both are seen unless something between them is opaque.
  const hidden = (x, y, a, b) => {
    const stack = document.elementsFromPoint(x, y);
    const [upper, lower] = [a, b].sort((one, other) => stack.indexOf(one) - stack.indexOf(other));
    const from = Math.max(0, stack.indexOf(upper)), to = stack.indexOf(lower);
    if (to < 0) return x > 0 && y > 0 && x < innerWidth && y < innerHeight;
    return stack.slice(from, to).some((node) => !node.contains(lower) && /^rgb\\(/.test(getComputedStyle(node).backgroundColor));
  };
  const problems = new Set();
  for (const { box, text } of boxes) {
    const parked = box.right < 0;  // a link for keyboards, which comes into the window with the focus
    if (box.right > innerWidth + 1 || (box.left < -1 && !parked)) problems.add(`beside the window: ${text}`);
  }
  boxes.forEach((one, place) => {
    for (const other of boxes.slice(place + 1)) {
      if (one.element === other.element || one.element.contains(other.element) || other.element.contains(one.element)) continue;
      const both = crossing(one.box, other.box);
      if (both.right - both.left < 3 || both.bottom - both.top < 5) continue;
      if (!hidden((both.left + both.right) / 2, (both.top + both.bottom) / 2, one.element, other.element)) problems.add(`${one.text} | ${other.text}`);
    }
  });
  for (const button of root.querySelectorAll('button')) {
    if (shown(button) && button.scrollWidth > button.clientWidth + 1 && button.innerText.trim()) problems.add(`cut off: ${button.innerText}`);
  }
  return [...problems];
}"""


def problems(page: Any) -> list[str]:
    """List the texts of an open page that lie over other text or a picture, are beside the window, or cut off in a button."""
    found: list[str] = page.evaluate(_PROBLEMS)
    return found


def problems_at_all_widths(page: Any, height: int = 844) -> dict[int, list[str]]:
    """List the problems at each width of `WIDTHS`; empty where there are none."""
    listed = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(100)
        if found := problems(page):
            listed[width] = found
    return listed


def serious_faults(page: Any, place: str) -> list[tuple[str, ...]]:
    """List what axe, which the page has run, finds serious or critical in a page at a place: rule, element, reason."""
    result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (place, fault["id"], fault["nodes"][0]["html"][:160], fault["nodes"][0]["failureSummary"][:300])
        for fault in result["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
