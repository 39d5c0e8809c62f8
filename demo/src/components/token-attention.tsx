/**
 * The attention weights of one head, as lines between tokens or in a heat map. The query tokens on the left are buttons whose
 * accessible names describe their weights, for keyboards and screen readers.
 */
import { type Signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { canHover, pointAt } from '../state/device';
import { hasMoved } from '../state/pointer';
import { heatColour } from '../state/theme';
import type { HeatMap } from './heat-map';
import { percent } from './numbers';

export interface TokenAttentionProps {
  tokens: string[];
  /** (tokens, tokens), row-major. */
  weights: Float32Array;
  /** Draws the heat map; without it, lines are drawn. The first page has lines only, so it does not download this. */
  heatMap?: typeof HeatMap | undefined;
  pinned: Signal<number | null>;
  /** The weights change all the time; screen readers do not announce them then. */
  changing?: boolean;
}

/** Lines per token, the largest weights first: of all tokens at once, and of one. */
const linesOfAll = 6;
const linesOfOne = 24;
/** Smaller weights than this part of a token's largest are not drawn. */
const leastPart = 0.1;

export function TokenAttention({ tokens, weights, heatMap: Heat, pinned, changing = false }: TokenAttentionProps) {
  const hovered = useSignal<number | null>(null);
  const column = useSignal<number | null>(null);
  const length = tokens.length;
  const kept = pinned.value !== null && pinned.value < length ? pinned.value : null;
  const query = hovered.value ?? kept;
  const row = (index: number) => weights.subarray(index * length, (index + 1) * length);
  const tokenButton = (token: string, index: number) => (
    <button
      type="button"
      key={index}
      class={`token ${index === query ? 'lit' : ''}`}
      aria-pressed={index === kept}
      aria-label={inWords(tokens, index, row(index))}
      onPointerMove={(event) => {
        if (hasMoved(event)) hovered.value = index;
      }}
      onPointerLeave={() => (hovered.value = null)}
      onFocus={() => (hovered.value = index)}
      onBlur={() => (hovered.value = null)}
      onClick={() => (pinned.value = index === kept ? null : index)}
    >
      {token}
    </button>
  );
  const queryTokens = <div class="tokens queries">{tokens.map(tokenButton)}</div>;
  const weight = (index: number): number => (query === null ? 0 : row(query)[index]!);
  const keyTokens: ComponentChildren = tokens.map((token, index) => (
    <span key={index} class={`token ${index === column.value ? 'lit' : ''}`} style={{ '--heat': weight(index) }}>
      {token}
    </span>
  ));

  return (
    <div class="token-attention">
      <p class="readout" aria-live={changing ? 'off' : 'polite'}>
        {query === null
          ? `${pointAt} a token to see what it attends to${canHover ? ', or move to it with the Tab key; click it to keep it selected' : ''}.`
          : inWords(tokens, query, row(query))}
      </p>
      {Heat ? (
        <div class="map-view" style={{ '--tokens': length }}>
          <div class="tokens keys" aria-hidden="true">
            {keyTokens}
          </div>
          {queryTokens}
          <div
            class="map-area"
            onPointerMove={(event) => {
              if (!hasMoved(event)) return;
              const box = event.currentTarget.getBoundingClientRect();
              hovered.value = Math.min(length - 1, Math.floor(((event.clientY - box.top) / box.height) * length));
              column.value = Math.min(length - 1, Math.floor(((event.clientX - box.left) / box.width) * length));
            }}
            onPointerLeave={() => {
              hovered.value = null;
              column.value = null;
            }}
          >
            <Heat
              weights={weights}
              length={length}
              label={`Attention of ${length} tokens to ${length} tokens; the buttons next to it list the weights.`}
            />
            {query !== null && <div class="row-marker" style={{ '--row': query }} />}
            {column.value !== null && <div class="column-marker" style={{ '--column': column.value }} />}
          </div>
        </div>
      ) : (
        <div class="lines-view">
          {queryTokens}
          <Lines weights={weights} length={length} query={query} />
          <div class="tokens keys" aria-hidden="true">
            {keyTokens}
          </div>
        </div>
      )}
    </div>
  );
}

/** Long texts have small weights, so lines are as strong as their weight is beside the largest of the same token. */
function Lines({ weights, length, query }: { weights: Float32Array; length: number; query: number | null }) {
  const lines: ComponentChildren[] = [];
  for (let from = 0; from < length; from++) {
    if (query !== null && from !== query) continue;
    const row = weights.subarray(from * length, (from + 1) * length);
    const largest = Math.max(...row);
    const drawn = Array.from(row, (weight, to) => ({ weight, to }))
      .filter(({ weight }) => weight >= leastPart * largest)
      .sort((a, b) => b.weight - a.weight)
      .slice(0, query === null ? linesOfAll : linesOfOne);
    for (const { weight, to } of drawn)
      lines.push(
        <line
          key={`${from}-${to}`}
          x1={0}
          y1={from + 0.5}
          x2={100}
          y2={to + 0.5}
          stroke-opacity={(weight / Math.max(largest, 0.25)) ** 0.7}
        />,
      );
  }
  return (
    <svg
      class="lines"
      viewBox={`0 0 100 ${length}`}
      preserveAspectRatio="none"
      stroke={`rgb(${heatColour.value})`}
      aria-hidden="true"
    >
      {lines}
    </svg>
  );
}

function inWords(tokens: string[], index: number, weights: Float32Array): string {
  const ranked = Array.from(weights, (weight, to) => ({ weight, token: tokens[to]! }))
    .sort((a, b) => b.weight - a.weight)
    .slice(0, 4);
  return `“${tokens[index]}” attends to ${ranked.map(({ weight, token }) => `“${token}” ${percent(weight)}`).join(', ')}`;
}
