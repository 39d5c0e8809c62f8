/** Dots in a plane that move smoothly when their places change. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Point } from '../engine/views';
import { type Glide, makeGlide } from './glide';

export interface Dot {
  colour: string;
  title: string;
  /** Drawn as a ring. */
  isRing: boolean;
}

interface MovingDotsProps {
  /** The accessible description. */
  label: string;
  dots: Dot[];
  /** [dots] */
  places: Point[];
  /** The points that are to be visible, with the same scale on both axes. */
  room: Point[];
}

const margin = 20;
const heightOf = (width: number) => Math.round(Math.min(420, Math.max(260, width * 0.6)));

export function MovingDots({ label, dots, places, room }: MovingDotsProps) {
  const svg = useRef<SVGSVGElement>(null);
  const glide = useRef<Glide>(null);
  const [width, setWidth] = useState(0);
  const last = useRef(0);
  const height = heightOf(width);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)));
    observer.observe(svg.current!.parentElement!);
    glide.current = makeGlide((now) => {
      // The element is removed before the effect is cleaned up, and a dot that is added has no place before the next effect.
      for (const [i, dot] of [...(svg.current?.querySelectorAll('circle') ?? [])].slice(0, now.length / 2).entries())
        dot.setAttribute('transform', `translate(${now[2 * i]} ${now[2 * i + 1]})`);
    });
    return () => {
      observer.disconnect();
      glide.current!.stop();
    };
  }, []);
  useEffect(() => {
    if (width === 0) return;
    glide.current!.to(Float64Array.from(inPixels(places, room, width, height).flat()), last.current !== width);
    last.current = width;
  }, [width, places, room]);
  return (
    <div class="dots">
      <svg ref={svg} role="img" aria-label={label} viewBox={`0 0 ${Math.max(1, width)} ${height}`} height={height}>
        {dots.map(({ colour, title, isRing }, i) => (
          <circle
            key={i}
            r={isRing ? 9 : 5}
            class={isRing ? 'tried' : ''}
            style={{ [isRing ? 'stroke' : 'fill']: colour }}
          >
            <title>{title}</title>
          </circle>
        ))}
      </svg>
    </div>
  );
}

function inPixels(places: Point[], room: Point[], width: number, height: number): Point[] {
  const [x, y] = [0, 1].map((axis) => {
    const values = room.map((point) => point[axis]!);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return { middle: (low + high) / 2, size: high - low };
  }) as [{ middle: number; size: number }, { middle: number; size: number }];
  const scale = Math.min((width - 2 * margin) / Math.max(1e-9, x.size), (height - 2 * margin) / Math.max(1e-9, y.size));
  return places.map((place) => [width / 2 + scale * (place[0] - x.middle), height / 2 - scale * (place[1] - y.middle)]);
}
