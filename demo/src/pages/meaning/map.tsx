/** The map, drawn on a canvas: points near each other have similar vectors; their colour is the similarity to the query. */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { Choice, Notice } from '../../components/controls';
import { count, decimal, short } from '../../components/numbers';
import { canHover, pointAt } from '../../state/device';
import { hasMoved } from '../../state/pointer';
import { colour, heatColour } from '../../state/theme';
import { found } from './dictionary';
import { embedded, failure, mapOf, points, positions } from './map-state';

const height = 430;
const margin = 24;
/** Names that are drawn: of the texts nearest to the query. */
const named = 10;
/** Pixels within which a point is meant. */
const reach = 24;

export function WordMap() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useSignal(0);
  const at = useSignal<number | null>(null);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      width.value = Math.floor(entry!.contentRect.width);
    });
    observer.observe(canvas.current!);
    return () => observer.disconnect();
  }, []);
  const current = points.value;
  const placed = current && positions.value?.length === current.texts.length ? positions.value : null;
  const scores = current && scoresOf(current.vectors.data, found.value?.query ?? null, current.texts.length);
  const hovered = placed && at.value !== null && at.value < placed.length ? at.value : null;
  useEffect(() => {
    if (width.value > 0) draw(canvas.current!, width.value, placed, scores, hovered);
  });
  const find = (event: PointerEvent) => {
    if (!placed || !hasMoved(event)) return;
    const box = canvas.current!.getBoundingClientRect();
    const places = inPixels(placed, width.value);
    const distances = places.map(([x, y]) => Math.hypot(x - event.clientX + box.left, y - event.clientY + box.top));
    const nearest = distances.indexOf(Math.min(...distances));
    at.value = distances[nearest]! < reach ? nearest : null;
  };
  return (
    <section class="map" aria-labelledby="map-title">
      <header class="bar">
        <h2 id="map-title">Map</h2>
        <Choice
          label="Of"
          state={mapOf}
          options={[
            ['words', 'words'],
            ['document', 'your document'],
          ]}
        />
      </header>
      {failure.value && <Notice kind="alert">{failure.value.message}</Notice>}
      <canvas
        ref={canvas}
        role="img"
        aria-label={`Map of ${current?.texts.length ?? 0} texts in the plane: texts with similar vectors are near each other`}
        onPointerMove={find}
        onPointerDown={find}
        onPointerLeave={() => {
          at.value = null;
        }}
      />
      <p class="facts" role="status" id="map-said">
        {said(hovered)}
      </p>
    </section>
  );
}

function said(hovered: number | null): string {
  const current = points.value;
  if (!current) {
    const { done, total } = embedded.value ?? { done: 0, total: 0 };
    return total > 0
      ? `Embedding ${count(done)} of ${count(total)} texts …`
      : 'The map appears when the model has loaded.';
  }
  if (positions.value === null) return `Laying out ${count(current.texts.length)} texts …`;
  if (hovered === null)
    return `${count(current.texts.length)} ${mapOf.value === 'words' ? 'words' : 'sentences'}, laid out by UMAP in this tab. Colours show the similarity to your description. ${pointAt} ${canHover ? 'one' : 'it'} to see its nearest.`;
  const nearest = current.nearest[hovered]!.slice(0, 5);
  return `“${short(current.texts[hovered]!)}”: nearest are ${nearest.map(({ index, score }) => `“${short(current.texts[index]!, 30)}” ${decimal(score)}`).join(', ')}.`;
}

/** The cosine of each row with the query; null without one. The dictionary's vectors may be shorter than those of the map. */
function scoresOf(data: Float32Array, query: Float32Array | null, rows: number): Float32Array | null {
  if (!query) return null;
  const width = data.length / rows;
  if (query.length !== width) return null;
  return Float32Array.from({ length: rows }, (_, row) => {
    let dot = 0;
    for (let i = 0; i < width; i++) dot += data[row * width + i]! * query[i]!;
    return dot;
  });
}

function inPixels(placed: number[][], width: number): [number, number][] {
  const range = [0, 1].map((axis) => {
    const values = placed.map((place) => place[axis]!);
    const low = Math.min(...values);
    return { low, size: Math.max(1e-9, Math.max(...values) - low) };
  });
  return placed.map(([x, y]) => [
    margin + ((x! - range[0]!.low) / range[0]!.size) * (width - 2 * margin),
    margin + ((y! - range[1]!.low) / range[1]!.size) * (height - 2 * margin),
  ]);
}

function draw(
  canvas: HTMLCanvasElement,
  width: number,
  placed: number[][] | null,
  scores: Float32Array | null,
  hovered: number | null,
): void {
  const scale = devicePixelRatio;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const context = canvas.getContext('2d')!;
  context.scale(scale, scale);
  const current = points.peek();
  if (!placed || !current) return;
  const places = inPixels(placed, width);
  const order = [...places.keys()].sort((a, b) => (scores ? scores[a]! - scores[b]! : 0));
  // From the middle score to the best one.
  const [middle, best] = scores ? [scores[order[order.length >> 1]!]!, scores[order.at(-1)!]!] : [0, 1];
  const [muted, ink, paper] = ['--line-strong', '--ink', '--surface'].map(colour) as [string, string, string];
  for (const i of order) {
    const share = scores ? Math.max(0, (scores[i]! - middle) / Math.max(1e-6, best - middle)) ** 2 : 0;
    const [x, y] = places[i]!;
    context.globalAlpha = 0.35 + 0.65 * share;
    context.fillStyle = share > 0.12 ? `rgb(${heatColour.peek()})` : muted;
    context.beginPath();
    context.arc(x, y, 2.2 + 4 * share, 0, 2 * Math.PI);
    context.fill();
  }
  context.globalAlpha = 1;
  const lines = hovered === null ? [] : current.nearest[hovered]!.slice(0, 5).map(({ index }) => index);
  context.strokeStyle = ink;
  for (const to of lines) {
    context.beginPath();
    context.moveTo(...places[hovered!]!);
    context.lineTo(...places[to]!);
    context.stroke();
  }
  const names =
    hovered === null
      ? scores
        ? order.slice(-named).reverse()
        : order.filter((_, i) => i % 60 === 0)
      : [hovered, ...lines];
  context.font = `13px ${getComputedStyle(canvas).fontFamily}`;
  context.lineWidth = 3;
  context.strokeStyle = paper;
  context.fillStyle = ink;
  const taken: { left: number; right: number; y: number }[] = [];
  for (const i of names) {
    const text = short(current.texts[i]!, 34);
    const [x, y] = places[i]!;
    const size = context.measureText(text).width;
    const left = Math.max(2, Math.min(width - size - 2, x + 7));
    const isCovered = taken.some((box) => Math.abs(box.y - y) < 14 && left < box.right && left + size > box.left);
    if (isCovered && i !== hovered) continue;
    taken.push({ left, right: left + size, y });
    context.strokeText(text, left, y + 4);
    context.fillText(text, left, y + 4);
  }
}
