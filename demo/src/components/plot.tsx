/** A chart drawn by Observable Plot, which is loaded when the first chart is. */
import { useEffect, useRef, useState } from 'preact/hooks';

type PlotLibrary = typeof import('@observablehq/plot');

interface PlotProps {
  /** What the chart shows and says, for those who cannot see it. */
  label: string;
  draw: (plot: PlotLibrary, width: number) => SVGSVGElement | HTMLElement;
  /** Draws anew when one of these changes. */
  dependencies: unknown[];
}

export function Plot({ label, draw, dependencies }: PlotProps) {
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
    void import('@observablehq/plot').then((library) => {
      if (stale) return;
      const chart = draw(library, width);
      // Plot brings its style sheet inline, which the page's policy forbids; the same rules stand in matrix.css.
      for (const style of chart.querySelectorAll('style')) style.remove();
      // The figure is one picture with one name; its groups have no names of their own.
      for (const named of chart.querySelectorAll('[aria-label]')) named.removeAttribute('aria-label');
      place.current!.replaceChildren(chart);
    });
    return () => {
      stale = true;
    };
  }, [width, ...dependencies]);

  return <div class="plot" role="img" aria-label={label} ref={place} />;
}
