/** What both maps share: their size, and names that do not cover each other. */

export const height = 430;
export const margin = 24;
/** Pixels within which a point is meant. */
export const reach = 24;

/** Sets the canvas to the resolution of the screen, and clears it. */
export function prepared(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const scale = devicePixelRatio;
  const [pixels, lines] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== pixels) canvas.width = pixels;
  if (canvas.height !== lines) canvas.height = lines;
  const context = canvas.getContext('2d')!;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

interface Box {
  left: number;
  right: number;
  y: number;
}

/**
 * Writes names with an outline, each beside its point, or centered where `offset` is 0. Leaves out those that would cover another or what is `taken`, unless
 * `isKept`.
 */
export function naming(context: CanvasRenderingContext2D, width: number, taken: Box[] = []) {
  return (text: string, x: number, y: number, isKept = false, offset = 7): void => {
    const size = context.measureText(text).width;
    const left = Math.max(2, Math.min(width - size - 2, offset === 0 ? x - size / 2 : x + offset));
    const isCovered = taken.some((box) => Math.abs(box.y - y) < 14 && left < box.right && left + size > box.left);
    if (isCovered && !isKept) return;
    taken.push({ left, right: left + size, y });
    context.strokeText(text, left, y + 4);
    context.fillText(text, left, y + 4);
  };
}
