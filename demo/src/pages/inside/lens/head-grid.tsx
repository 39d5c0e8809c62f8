/** A grid of layers by heads, each a button that switches the head off; its colour is what changes if it alone is off. */
import { moveInRows } from '../../../components/arrow-keys';
import { decimal } from '../../../components/numbers';

interface HeadGridProps {
  layers: number;
  heads: number;
  off: readonly string[];
  setOff: (off: string[]) => void;
  /** [layers][heads], as far as they are known. */
  changes: readonly number[][] | undefined;
  label: string;
}

export function HeadGrid({ layers, heads, off, setOff, changes, label }: HeadGridProps) {
  const largest = largestOf(changes);
  const names = Array.from({ length: layers }, (_, layer) =>
    Array.from({ length: heads }, (_, head) => `${layer}.${head}`),
  );
  const toggle = (name: string) =>
    setOff(off.includes(name) ? off.filter((other) => other !== name) : [...off, name].sort());
  const reachable = firstOff(off, layers, heads) ?? '0.0';
  return (
    <fieldset class="lens-grid" aria-label={label} onKeyDown={(event) => moveInRows(event, '.lens-row')}>
      {names.map((row, layer) => (
        <div class="lens-row" key={layer} style={{ '--columns': heads }}>
          <span class="lens-name">Layer {layer + 1}</span>
          {row.map((name, head) => {
            const isOff = off.includes(name);
            const change = changes?.[layer]?.[head];
            return (
              <button
                type="button"
                key={name}
                class={`lens-cell ${tone(change ?? 0)}`}
                style={shade(change ?? 0, largest)}
                tabIndex={name === reachable ? 0 : -1}
                aria-pressed={isOff}
                aria-label={`Switch off layer ${layer + 1}, head ${head + 1}`}
                title={change === undefined ? undefined : `Off alone: ${signed(change)}`}
                onClick={() => toggle(name)}
              >
                {isOff ? 'off' : head + 1}
              </button>
            );
          })}
        </div>
      ))}
    </fieldset>
  );
}

/** The first head that is off; a link may name heads that the model does not have. */
export function firstOff(off: readonly string[], layers: number, heads: number): string | undefined {
  return off.find((name) => {
    const [layer = NaN, head = NaN] = name.split('.').map(Number);
    return `${layer}.${head}` === name && layer >= 0 && layer < layers && head >= 0 && head < heads;
  });
}

export const largestOf = (changes: readonly number[][] | undefined): number =>
  Math.max(1e-9, ...(changes?.flat().map(Math.abs) ?? []));

/** The colour of a cell, the stronger the closer the change is to the largest. */
export const shade = (change: number, largest: number) => ({
  '--share': `${Math.round((100 * Math.abs(change)) / largest)}%`,
});
export const tone = (change: number): string => (change < 0 ? 'down' : 'up');
const signed = (change: number): string => `${change < 0 ? '' : '+'}${decimal(change, 4)}`;
