/** All heads at once, as small pictures: what the chosen word of the second sentence attends to in each. One that is chosen gives the ribbons. */
import { useState } from 'preact/hooks';
import { percent } from '../../components/numbers';
import { asEntry } from '../../state/url';
import { everyLayer, type HeadChoice, head, heads, layer, views } from './state';

/** Their pictures are made when they are opened: they are more elements than the rest of the page. */
export function AllHeads() {
  const [isOpen, setOpen] = useState(false);
  const { trace, at } = views[1]!.value;
  if (!trace.all || at < 0) return null;
  const name = trace.tokens[at]!;
  return (
    <details class="all-heads" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        All {everyLayer.length * heads} heads of “{name}” in the second sentence
      </summary>
      <p class="facts">
        Each bar is a token of the sentence, in its order. A row is a layer, from the last to the first. Choose a head
        to see its ribbons.
      </p>
      {isOpen &&
        [...everyLayer].reverse().map((number) => (
          <div class="heads-of-layer" key={number}>
            <span>layer {number}</span>
            <div>
              {trace.all![number - 1]?.map((weights, i) => {
                const choice: HeadChoice = `${number}.${i + 1}`;
                const row = weights[at]!;
                const most = row.indexOf(Math.max(...row));
                return (
                  <button
                    type="button"
                    key={choice}
                    aria-pressed={head.value === choice}
                    aria-label={`Layer ${number}, head ${i + 1}: most to “${trace.tokens[most]}”, ${percent(row[most]!)}`}
                    onClick={() =>
                      asEntry(() => {
                        head.value = head.value === choice ? 'mean' : choice;
                        layer.value = number;
                      })
                    }
                  >
                    <svg viewBox={`0 0 ${row.length} 1`} preserveAspectRatio="none" aria-hidden="true">
                      <path
                        d={row.map((share, to) => `M ${to + 0.15} 1 V ${(1 - share).toFixed(3)} h 0.7 V 1`).join('')}
                      />
                    </svg>
                  </button>
                );
              })}
            </div>
          </div>
        ))}
    </details>
  );
}
