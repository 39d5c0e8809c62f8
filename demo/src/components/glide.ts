/** Moves numbers smoothly towards their targets; a new target is taken up on the way to the last one. */

/** Milliseconds in which the distance shrinks to 1/e. */
const pace = 140;
/** In pixels: a smaller distance is not seen. */
const least = 0.2;

export interface Glide {
  /** Where the numbers are now. */
  readonly now: Float64Array;
  /** Goes to `values`; at once if there is another number of them, if `jumps`, or if the reader prefers reduced motion. */
  to(values: Float64Array, jumps?: boolean): void;
  stop(): void;
}

/** `draw` is called with the numbers of each frame. */
export function makeGlide(draw: (now: Float64Array) => void): Glide {
  const calm = matchMedia('(prefers-reduced-motion: reduce)');
  let now: Float64Array = new Float64Array(0);
  let target: Float64Array = now;
  let before = 0;
  let frame = 0;
  const step = (time: number) => {
    const share = 1 - Math.exp(-Math.max(0, time - before) / pace);
    before = time;
    let farthest = 0;
    for (let i = 0; i < now.length; i++) {
      const way = target[i]! - now[i]!;
      farthest = Math.max(farthest, Math.abs(way));
      now[i]! += share * way;
    }
    if (farthest < least) now.set(target);
    frame = farthest < least ? 0 : requestAnimationFrame(step);
    draw(now);
  };
  return {
    get now() {
      return now;
    },
    to(values, jumps = false) {
      target = values;
      if (jumps || calm.matches || document.hidden || values.length !== now.length) {
        cancelAnimationFrame(frame);
        frame = 0;
        now = values.slice();
        draw(now);
      } else if (frame === 0) {
        before = performance.now();
        frame = requestAnimationFrame(step);
      }
    },
    stop: () => cancelAnimationFrame(frame),
  };
}
