/**
 * Moves the focus to the heading of a page that the reader has gone to: screen readers announce it, and the Tab key goes on from there. A link leads to the page's top, Back
 * and Forward to where the reader left it.
 */
import { effect } from '@preact/signals';
import { page } from './url';

export function followArrivals(): void {
  let before = page.peek();
  let observer: MutationObserver | undefined;
  const left = new Map<string, number>();
  let isByLink = false;
  addEventListener(
    'click',
    ({ target }) => {
      isByLink = (target as Element).closest('a, button') !== null;
    },
    { capture: true },
  );
  addEventListener('popstate', () => left.set(before, scrollY), { capture: true });
  effect(() => {
    const now = page.value;
    if (now === before) return;
    before = now;
    observer?.disconnect();
    const top = isByLink ? 0 : (left.get(now) ?? 0);
    isByLink = false;
    const last = document.querySelector('main h1');
    // The page may be downloaded first, and says meanwhile that it is.
    observer = new MutationObserver(() => {
      const heading = document.querySelector<HTMLElement>('main h1');
      if (!heading || heading === last) return;
      observer!.disconnect();
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
      scrollTo(0, top);
    });
    observer.observe(document.querySelector('main')!, { subtree: true, childList: true });
  });
}
