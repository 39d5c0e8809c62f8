/** Layout shift, for engines that do not report it. */

/** The most that may move while a page loads: a fifth of what https://web.dev/articles/cls counts as good. */
export const mostShift = 0.02;

/** What is opened: `shown` are the elements that appear last. */
interface Load {
  url: string;
  shown: string[];
  /** Of the frames in which it is opened, side by side. */
  widths: number[];
}

/**
 * Runs in a page: opens another one in frames, and returns for each of them the sum of its layout shifts until it is complete, as
 * https://wicg.github.io/layout-instability defines them: for each frame that is drawn, the share of the window that moved, before and after, times the longest
 * way, as a share of the longer side.
 */
export async function shiftsIn({ url, shown, widths }: Load): Promise<{ total: number; moved: string[] }[]> {
  const height = 800;
  const grain = 8;
  const frames = widths.map((width) => Object.assign(document.createElement('iframe'), { width, height, src: url }));
  document.body.replaceChildren(...frames);
  const watched = frames.map((frame) => {
    let before = new Map<Element, DOMRect>();
    let [total, moved] = [0, [] as string[]];
    const isVisible = ({ left, top, right, bottom }: DOMRect, width: number) =>
      right > left && bottom > top && right > 0 && bottom > 0 && left < width && top < height;
    return {
      found: () => ({ total, moved }),
      look() {
        const page = frame.contentDocument!;
        // Nothing is drawn before the style sheet is there, though scripts can already measure it.
        if (!page.body || !getComputedStyle(page.documentElement).getPropertyValue('--query')) return;
        const width = Number(frame.width);
        const now = new Map<Element, DOMRect>();
        const unstable: DOMRect[] = [];
        let way = 0;
        for (const element of page.querySelectorAll('body *')) {
          const place = element.getBoundingClientRect();
          now.set(element, place);
          const last = before.get(element);
          if (!last || !(isVisible(last, width) && isVisible(place, width))) continue;
          const steps = [Math.abs(place.left - last.left), Math.abs(place.top - last.top)];
          if (Math.max(...steps) < 3) continue;
          way = Math.max(way, ...steps);
          unstable.push(last, place);
          moved.push(
            `${Math.round(performance.now())} ms, ${width} px: ${element.outerHTML.slice(0, 60)} by ${steps.map(Math.round)} px`,
          );
        }
        before = now;
        if (unstable.length === 0) return;
        let [inside, all] = [0, 0];
        for (let x = 0; x < width; x += grain)
          for (let y = 0; y < height; y += grain) {
            all++;
            if (unstable.some(({ left, top, right, bottom }) => x >= left && x < right && y >= top && y < bottom))
              inside++;
          }
        total += (inside / all) * (way / Math.max(width, height));
      },
      isComplete() {
        const page = frame.contentDocument!;
        return (
          page.URL !== 'about:blank' &&
          /Loaded:|Saved:/.test(page.querySelector('.status-line')?.textContent ?? '') &&
          !page.querySelector('.waiting, .plot:empty') &&
          shown.every((selector) => page.querySelector(selector)) &&
          [...page.fonts].some(({ family, status }) => family.includes('Source Serif 4') && status === 'loaded')
        );
      },
    };
  });
  const drawn = () => new Promise(requestAnimationFrame);
  for (let after = 0; after < 2; ) {
    await drawn();
    for (const one of watched) one.look();
    if (watched.every((one) => one.isComplete())) after++;
  }
  return watched.map((one) => one.found());
}
