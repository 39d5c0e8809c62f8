/** A chart drawn by Observable Plot, which is loaded when the first chart is. */
import { useEffect, useRef, useState } from 'preact/hooks';

type PlotLibrary = typeof import('./plot-library');

interface PlotProps {
  /** What the chart shows and says, for those who cannot see it. */
  label: string;
  draw: (plot: PlotLibrary, width: number) => Element;
  /** Draws anew when one of these changes. */
  dependencies: unknown[];
  /** Dots and their labels move from where they were, if there are as many as before. */
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
      if (stale) return;
      const chart = draw(library, width);
      // Plot brings its style sheet inline, which the page's policy forbids; the same rules stand in matrix.css.
      for (const style of chart.querySelectorAll('style')) style.remove();
      // The figure is one picture with one name; its groups have no names of their own.
      for (const named of chart.querySelectorAll('[aria-label]')) named.removeAttribute('aria-label');
      const before = glide ? placesIn(place.current!) : [];
      place.current!.replaceChildren(chart);
      if (glide) moveFrom(before, place.current!);
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
