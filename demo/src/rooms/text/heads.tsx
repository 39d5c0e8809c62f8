/** Every head of every layer at a glance: choose one to see it large, switch any off, and see how much the result needed it. */
import { HeatMap } from '../../components/heat-map';
import { decimal, percent, plural } from '../../components/numbers';
import { asFailure, engine } from '../../engine/client';
import type { AttentionView } from '../../engine/models';
import { type Explorer, within } from './state';

export function HeadGrid({ explorer, view }: { explorer: Explorer; view: AttentionView }) {
  const { layer, head, off, importance } = explorer;
  const { layers, heads } = view;
  const length = view.tokens.length;
  const most = Math.max(1e-9, ...(importance.value?.flat() ?? [0]));
  const weights = (l: number, h: number) =>
    view.weights.subarray((l * heads + h) * length ** 2, (l * heads + h + 1) * length ** 2);
  const toggle = (name: string) => {
    off.value = off.value.includes(name) ? off.value.filter((other) => other !== name) : [...off.value, name].sort();
  };
  return (
    <fieldset class="head-grid" aria-label="Heads of every layer">
      {Array.from({ length: layers }, (_, l) => (
        <div class="head-row" key={l} style={{ '--heads': heads }}>
          <span class="layer-name">Layer {l + 1}</span>
          {Array.from({ length: heads }, (_, h) => {
            const name = `${l}.${h}`;
            const isOff = off.value.includes(name);
            const chosen = l === within(layer.value, layers) && h === within(head.value, heads);
            const needed = importance.value?.[l]?.[h];
            return (
              <div class={`head ${isOff ? 'off' : ''}`} key={h}>
                <button
                  type="button"
                  aria-pressed={chosen}
                  aria-label={`Show layer ${l + 1}, head ${h + 1}`}
                  onClick={() => {
                    layer.value = l;
                    head.value = h;
                  }}
                >
                  <HeatMap weights={weights(l, h)} length={length} />
                </button>
                <label
                  title={
                    needed === undefined
                      ? undefined
                      : `Switched off alone, it turns the vectors by ${decimal(needed, 4)}`
                  }
                >
                  <input
                    type="checkbox"
                    checked={!isOff}
                    onInput={() => toggle(name)}
                    aria-label={`Layer ${l + 1}, head ${h + 1} on`}
                  />
                  <span aria-hidden="true">{h + 1}</span>
                  {needed !== undefined && <span class="needed" style={{ '--share': needed / most }} />}
                </label>
              </div>
            );
          })}
        </div>
      ))}
    </fieldset>
  );
}

/** What the switched-off heads did to the sentences' vectors, and which heads would matter most. */
export function HeadEffect({ explorer }: { explorer: Explorer }) {
  const { off, texts, similarity, importance, which, failure } = explorer;
  const unchanged = similarity.value?.view.unchanged ?? [];
  const measure = () => {
    engine.importance(which, texts.value).then(
      (measured) => {
        importance.value = measured;
      },
      (reason: unknown) => {
        failure.value = asFailure(reason);
      },
    );
  };
  const least = Math.min(1, ...unchanged);
  return (
    <div class="head-effect">
      <p role="status">
        {off.value.length === 0
          ? 'All heads are on. Untick one to switch it off.'
          : `${plural(off.value.length, 'head')} off: the sentences’ vectors keep a cosine of ${decimal(mean(unchanged), 4)} on average to what they were (least ${decimal(least, 4)}).`}
      </p>
      <div class="buttons">
        <button type="button" onClick={measure}>
          Which heads matter?
        </button>
        {off.value.length > 0 && (
          <button type="button" onClick={() => (off.value = [])}>
            All on
          </button>
        )}
      </div>
      {importance.value && <Ranking importance={importance.value} />}
    </div>
  );
}

function Ranking({ importance }: { importance: number[][] }) {
  const ranked = importance
    .flatMap((row, layer) => row.map((change, head) => ({ change, layer, head })))
    .sort((a, b) => b.change - a.change);
  const total = ranked.reduce((sum, { change }) => sum + change, 0) || 1;
  const top = ranked.slice(0, 3);
  return (
    <p>
      Switched off one at a time,{' '}
      {top
        .map(
          ({ layer, head, change }) => `layer ${layer + 1} head ${head + 1} (${percent(change / total)} of all change)`,
        )
        .join(', ')}{' '}
      matter most for these sentences; the bars show all.
    </p>
  );
}

const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
