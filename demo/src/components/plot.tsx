/** A chart drawn by Observable Plot, which is loaded with the first chart. */
import { useEffect, useRef, useState } from 'preact/hooks';

type PlotLibrary = typeof import('./plot-library');

interface PlotProps {
  /** The accessible description of the chart. */
  label: string;
  draw: (plot: PlotLibrary, width: number) => Element;
  /** The chart is drawn again when one of these changes. */
  dependencies: unknown[];
  /** Animates dots and labels from their previous positions, if their number is unchanged. */
  glide?: boolean;
}

export function Plot({ label, draw, dependencies, glide = false }: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);

  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)));
    observer.observe(place.current!);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (width === 0) return;
    let stale = false;
    void import('./plot-library').then((library) => {
      if (stale || !place.current) return; // the element is removed before the effect is cleaned up
      const chart = draw(library, width);
      // Plot adds an inline style sheet, which the content security policy forbids; matrix.css has the same rules.
      for (const style of chart.querySelectorAll('style')) style.remove();
      // The chart is one image with one name, so its groups have none.
      for (const named of chart.querySelectorAll('[aria-label]')) named.removeAttribute('aria-label');
      const before = glide ? placesIn(place.current) : [];
      place.current.replaceChildren(chart);
      if (glide) moveFrom(before, place.current);
    });
    return () => {
      stale = true;
    };
  }, [width, ...dependencies]);

  return <div class="plot" role="img" aria-label={label} ref={place} />;
}

const movable = 'circle, text';

function placesIn(chart: Element): DOMRect[] {
  return [...chart.querySelectorAll(movable)].map((mark) => mark.getBoundingClientRect());
}

function moveFrom(before: DOMRect[], chart: Element): void {
  const marks = [...chart.querySelectorAll(movable)];
  if (marks.length !== before.length || matchMedia('(prefers-reduced-motion: reduce)').matches) return;
  const after = placesIn(chart);
  marks.forEach((mark, i) => {
    const from = `${before[i]!.x - after[i]!.x}px ${before[i]!.y - after[i]!.y}px`;
    mark.animate({ translate: [from, '0 0'] }, { duration: 900, easing: 'cubic-bezier(0.3, 0, 0.2, 1)' });
  });
}
