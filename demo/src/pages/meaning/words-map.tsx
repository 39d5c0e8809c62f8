/** The map of the dictionary: each word where `demo/measure-map.mjs` has laid it out, the names of regions, and the words that the dictionary finds. */
import { computed, effect, signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { offered } from '../../../../examples/support/answers.mjs';
import { Failed } from '../../components/failed';
import { type Glide, makeGlide } from '../../components/glide';
import { count, short } from '../../components/numbers';
import { loadDictionary } from '../../engine/dictionary';
import { asFailure, type Failure, shipped } from '../../engine/heed';
import { attemptsAt } from '../../state/attempts';
import { canHover, pointAt } from '../../state/device';
import { hasMoved } from '../../state/pointer';
import { theme } from '../../state/theme';
import { page } from '../../state/url';
import { found } from './dictionary';
import { height, reach } from './map-canvas';
import { drawWords, type Found, type Layout, nearestTo, neighboursOn, placeIn, read } from './words-drawing';

const layout = signal<Layout | null>(null);
const failure = signal<Failure | null>(null);
/** The words in the order of the layout; null until the dictionary has loaded. */
const words = signal<string[] | null>(null);
const placeOf = computed(() => new Map(words.value?.map((word, i) => [word, i])));
const shownFirst = 5;

const { begin, retry } = attemptsAt(failure);

export function followWords(): void {
  effect(() => {
    begin();
    if (page.value !== 'meaning' || layout.peek()) return;
    import('./words-map.json').then(
      ({ default: file }) => {
        layout.value = read(file as Parameters<typeof read>[0]);
        failure.value = null;
      },
      (reason) => {
        failure.value = asFailure(reason);
      },
    );
  });
  effect(() => {
    // After each answer: a dictionary that failed and was loaded again has answered.
    void found.value;
    if (page.value !== 'meaning' || !shipped.value || words.peek()) return;
    loadDictionary(shipped.value.model).then(
      ({ texts }) => {
        words.value = texts.filter(offered);
      },
      () => {}, // the dictionary says so
    );
  });
}

/** What the dictionary shows, with its scores. */
const highlighted = computed((): Found[] =>
  (found.value?.words ?? []).flatMap(({ text, score }) => {
    const at = placeOf.value.get(text);
    return at === undefined ? [] : [{ at, text, score }];
  }),
);

export function WordsMap() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const glide = useRef<Glide>(null);
  const paint = useRef<() => void>(() => {});
  const width = useSignal(0);
  const hovered = useSignal<number | null>(null);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      width.value = Math.floor(entry!.contentRect.width);
    });
    observer.observe(canvas.current!);
    glide.current = makeGlide(() => canvas.current && paint.current());
    return () => {
      observer.disconnect();
      glide.current!.stop();
    };
  }, []);
  const current = layout.value;
  const hits = highlighted.value;
  useEffect(() => {
    if (width.value === 0 || !current) return;
    const size = { width: width.value, height };
    paint.current = () =>
      drawWords(canvas.current!, current, size, {
        hits,
        ring: glide.current!.now,
        hovered: hovered.peek(),
        words: words.peek(),
      });
    // The ring is the mean of what is found; the best ones count most.
    const weights = hits.map(({ score }) => Math.max(score, 0.01) ** 6);
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const mean = (axis: 0 | 1) =>
      hits.reduce((sum, { at }, i) => sum + (weights[i]! / total) * placeIn(current, size, at)[axis], 0);
    glide.current!.to(Float64Array.from(hits.length > 0 ? [mean(0), mean(1)] : []));
    paint.current();
  }, [current, hits, width.value]);
  useEffect(() => paint.current(), [hovered.value, theme.value, words.value]);
  const find = (event: PointerEvent) => {
    if (!current || !hasMoved(event)) return;
    const box = canvas.current!.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const [nearest] = nearestTo(current, { width: width.peek(), height }, x, y, 1);
    hovered.value = nearest && nearest.gap < reach ? nearest.at : null;
  };
  const total = current?.xs.length ?? 0;
  return (
    <>
      {failure.value && <Failed what="The map" of={failure.value} retry={retry} />}
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Map of ${count(total)} words in the plane: words with similar meanings are near each other`}
        aria-describedby="map-said"
        onPointerMove={find}
        onPointerDown={find}
        onPointerLeave={() => {
          hovered.value = null;
        }}
      />
      <p class="facts" role="status" id="map-said">
        {current && said(current, hovered.value, width.value)}
      </p>
      <p class="facts" id="map-note">
        {current &&
          `${count(total)} words of the dictionary by their vectors, laid out by UMAP. A region’s name is one of its words. The ring is your description, amid the words that the dictionary finds. ${pointAt} ${canHover ? 'a word' : 'one'} to see its neighbours.`}
      </p>
    </>
  );
}

function said(current: Layout, hovered: number | null, width: number): string {
  const names = words.value;
  if (hovered !== null) {
    if (!names) return 'The words are still being loaded.';
    const beside = neighboursOn(current, { width, height }, hovered).map((at) => `“${names[at]}”`);
    return `“${names[hovered]}”: beside it are ${beside.join(', ')}.`;
  }
  const answer = found.value;
  if (!answer) return '';
  const nearest = answer.words.slice(0, shownFirst).map(({ text, score }) => `“${text}” ${score.toFixed(2)}`);
  return `Nearest to “${short(answer.description)}”: ${nearest.join(', ')}.`;
}
