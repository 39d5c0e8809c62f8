/**
 * Runs in the page: moves the pointer to every cell of every matrix, and returns by how many pixels an element has moved at most, and which.
 */
export async function sweep(): Promise<{ pixels: number; which: string }> {
  const watched = [
    // Of the footer its first part: its last line says how far the page has loaded, and may grow meanwhile.
    ...document.querySelectorAll('.step, .matrix, .matrix td, .matrix th, h2, footer > :first-child'),
  ];
  const places = () => watched.map((element) => element.getBoundingClientRect());
  const before = places();
  let most = { pixels: 0, which: '' };
  let moved = 0;
  for (const cell of document.querySelectorAll('.matrix td')) {
    cell.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, pointerType: 'mouse', screenX: ++moved }));
    await new Promise((resolve) => setTimeout(resolve)); // the page draws
    for (const [i, place] of places().entries())
      for (const side of ['left', 'top', 'right', 'bottom'] as const) {
        const pixels = Math.abs(place[side] - before[i]![side]);
        if (pixels > most.pixels)
          most = { pixels, which: `${watched[i]!.outerHTML.slice(0, 80)}, pointer at ${cell.outerHTML.slice(0, 60)}` };
      }
  }
  return most;
}
