/** Files dropped anywhere on the page. */
import { useEffect, useState } from 'preact/hooks';

/** Calls `onDrop` with what is dropped, while the component is shown and if it is `enabled`. Returns whether something is being dragged over the page. */
export function useDrop(enabled: boolean, onDrop: (transfer: DataTransfer) => void): boolean {
  const [over, setOver] = useState(false);
  // On the whole window: if a file were dropped next to a smaller target, the browser would leave the page.
  useEffect(() => {
    if (!enabled) return;
    const listeners = {
      dragover: (event: DragEvent) => {
        event.preventDefault();
        setOver(true);
      },
      dragleave: (event: DragEvent) => {
        if (!event.relatedTarget) setOver(false);
      },
      drop: (event: DragEvent) => {
        event.preventDefault();
        setOver(false);
        if (event.dataTransfer) onDrop(event.dataTransfer);
      },
    };
    const stop = new AbortController();
    for (const [name, listener] of Object.entries(listeners))
      addEventListener(name, listener as EventListener, { signal: stop.signal });
    return () => stop.abort();
  }, []);
  return over;
}
