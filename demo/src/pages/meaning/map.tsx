/** The maps: of the dictionary's words, and of the document, whose points move towards the query, and are coloured, by their similarity to it. */
import { computed, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { Choice } from '../../components/controls';
import { Failed } from '../../components/failed';
import { type Glide, makeGlide } from '../../components/glide';
import { count, decimal, short } from '../../components/numbers';
import { canHover, pointAt } from '../../state/device';
import { hasMoved } from '../../state/pointer';
import { theme } from '../../state/theme';
import { found } from './dictionary';
import { height, margin, reach } from './map-canvas';
import { draw, type Scene } from './map-drawing';
import { orderOf, placed, scoresOf, sharesOf } from './map-motion';
import { embedded, failure, mapOf, points, positions, retry } from './map-state';
import { WordsMap } from './words-map';

const mostNamed = 5;

/** The points' similarities to the query. */
const similar = computed(() => {
  const [current, definition] = [points.value, found.value];
  const scores = current && definition && scoresOf(current.vectors.data, definition.query, current.texts.length);
  if (!scores) return null;
  const order = orderOf(scores);
  return { scores, order, shares: sharesOf(scores, order), description: definition.description };
});

export const Maps = () => (
  <section class="map" aria-labelledby="map-title">
    <header class="bar">
      <h2 id="map-title">Map</h2>
      <Choice
        label="Map of"
        state={mapOf}
        options={[
          ['words', 'words'],
          ['document', 'your document'],
        ]}
      />
    </header>
    {mapOf.value === 'words' ? <WordsMap /> : <DocumentMap />}
  </section>
);

function DocumentMap() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const glide = useRef<Glide>(null);
  const scene = useRef<Scene | null>(null);
  const width = useSignal(0);
  const at = useSignal<number | null>(null);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      width.value = Math.floor(entry!.contentRect.width);
    });
    observer.observe(canvas.current!);
    glide.current = makeGlide((now) => {
      // The element is removed before the effect is cleaned up.
      if (canvas.current) draw(canvas.current, scene.current, width.peek(), height, now);
    });
    return () => {
      observer.disconnect();
      glide.current!.stop();
    };
  }, []);
  const current = points.value;
  const laidOut = current && positions.value?.length === current.texts.length ? positions.value : null;
  const hovered = laidOut && at.value !== null && at.value < laidOut.length ? at.value : null;
  useEffect(() => {
    if (width.value === 0) return;
    const isResized = scene.current?.width !== width.value;
    const places = laidOut ? inPixels(laidOut, width.value) : [];
    const { order, shares } = (laidOut && similar.value) ?? { order: [...places.keys()], shares: null };
    scene.current = laidOut && { width: width.value, height, points: current!, order, shares, hovered };
    glide.current!.to(placed(places, shares, order), isResized);
  }, [laidOut, similar.value, width.value]);
  useEffect(() => {
    if (!scene.current) return;
    scene.current.hovered = hovered;
    draw(canvas.current!, scene.current, width.value, height, glide.current!.now);
  }, [hovered, theme.value]);
  const find = (event: PointerEvent) => {
    if (!laidOut || !hasMoved(event)) return;
    const box = canvas.current!.getBoundingClientRect();
    const { now } = glide.current!;
    const distances = laidOut.map((_, i) =>
      Math.hypot(now[2 * i]! - event.clientX + box.left, now[2 * i + 1]! - event.clientY + box.top),
    );
    const nearest = distances.indexOf(Math.min(...distances));
    at.value = distances[nearest]! < reach ? nearest : null;
  };
  return (
    <>
      {failure.value && <Failed what="The map" of={failure.value} retry={retry} />}
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Map of ${current?.texts.length ?? 0} texts in the plane: texts with similar vectors are near each other`}
        aria-describedby="map-said"
        onPointerMove={find}
        onPointerDown={find}
        onPointerLeave={() => {
          at.value = null;
        }}
      />
      <p class="facts" role="status" id="map-said">
        {said(hovered)}
        {/* The count would be announced at each change. */}
        <span aria-hidden="true">{progress()}</span>
      </p>
      <p class="facts" id="map-note">
        {laidOut &&
          `${count(laidOut.length)} sentences, laid out by UMAP in this tab. The more similar one is to your description (the ring), the farther it moves there. ${pointAt} ${canHover ? 'one' : 'it'} to see its nearest.`}
      </p>
    </>
  );
}

function progress(): string {
  const { done, total } = embedded.value ?? { done: 0, total: 0 };
  return !points.value && total > 0 ? ` ${count(done)} of ${count(total)}` : '';
}

function said(hovered: number | null): string {
  const current = points.value;
  if (!current) {
    if (failure.value) return '';
    return embedded.value ? 'Embedding texts …' : 'The map appears when the model has loaded.';
  }
  if (positions.value === null) return `Laying out ${count(current.texts.length)} texts …`;
  const list = (hits: { index: number; score: number }[]) =>
    hits.map(({ index, score }) => `“${short(current.texts[index]!, 30)}” ${decimal(score)}`).join(', ');
  if (hovered !== null)
    return `“${short(current.texts[hovered]!)}”: nearest are ${list(current.nearest[hovered]!.slice(0, mostNamed))}.`;
  if (!similar.value) return '';
  const { scores, order, description } = similar.value;
  const nearest = order.slice(-mostNamed).reverse();
  return `Nearest to “${short(description)}”: ${list(nearest.map((index) => ({ index, score: scores[index]! })))}.`;
}

function inPixels(laidOut: number[][], width: number): [number, number][] {
  const range = [0, 1].map((axis) => {
    const values = laidOut.map((place) => place[axis]!);
    const low = Math.min(...values);
    return { low, size: Math.max(1e-9, Math.max(...values) - low) };
  });
  return laidOut.map(([x, y]) => [
    margin + ((x! - range[0]!.low) / range[0]!.size) * (width - 2 * margin),
    margin + ((y! - range[1]!.low) / range[1]!.size) * (height - 2 * margin),
  ]);
}
