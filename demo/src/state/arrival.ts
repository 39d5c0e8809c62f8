/** Moves the focus to the heading of a page that the reader has gone to: screen readers announce it, and the Tab key goes on from there. */
import { effect } from '@preact/signals';
import { page } from './url';

export function followArrivals(): void {
  let before = page.peek();
  let observer: MutationObserver | undefined;
  effect(() => {
    const now = page.value;
    if (now === before) return;
    before = now;
    observer?.disconnect();
    const left = document.querySelector('main h1');
    // The page may be downloaded first, and says meanwhile that it is.
    observer = new MutationObserver(() => {
      const heading = document.querySelector<HTMLElement>('main h1');
      if (!heading || heading === left) return;
      observer!.disconnect();
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
      scrollTo(0, 0);
    });
    observer.observe(document.querySelector('main')!, { subtree: true, childList: true });
  });
}
