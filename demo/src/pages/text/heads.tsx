/** All heads of all layers: select one to enlarge it, switch heads off, and see how much the result depends on them. */
import type { HeadImportance } from 'heed';
import { moveInRows } from '../../components/arrow-keys';
import { HeatMap } from '../../components/heat-map';
import { decimal, percent, plural } from '../../components/numbers';
import { asFailure, heed, inTurn } from '../../engine/heed';
import { type AttentionView, mean, measureImportance } from '../../engine/views';
import { type Explorer, within } from './state';

export function HeadGrid({ explorer, view }: { explorer: Explorer; view: AttentionView }) {
  const { layer, head, off, importance } = explorer;
  const largest = Math.max(1e-9, importance.value?.[0]?.change ?? 0);
  const toggle = (name: string) => {
    off.value = off.value.includes(name) ? off.value.filter((other) => other !== name) : [...off.value, name].sort();
  };
  return (
    <fieldset
      class="head-grid"
      aria-label="Heads of every layer; arrow keys move between them"
      onKeyDown={(event) => moveInRows(event, '.head-row')}
    >
      {view.weights.map((heads, l) => (
        <div class="head-row" key={l} style={{ '--heads': heads.length }}>
          <span class="layer-name">Layer {l + 1}</span>
          {heads.map((weights, h) => {
            const name = `${l}.${h}`;
            const isOff = off.value.includes(name);
            const chosen = l === within(layer.value, view.weights.length) && h === within(head.value, heads.length);
            const needed = importance.value?.find((entry) => entry.layer === l && entry.head === h)?.change;
            return (
              <div class={`head ${isOff ? 'off' : ''}`} key={h}>
                <button
                  type="button"
                  tabIndex={chosen ? 0 : -1}
                  aria-pressed={chosen}
                  aria-label={`Show layer ${l + 1}, head ${h + 1}`}
                  onClick={() => {
                    layer.value = l;
                    head.value = h;
                  }}
                >
                  <HeatMap weights={weights} length={view.tokens.length} />
                </button>
                <label
                  title={
                    needed === undefined
                      ? undefined
                      : `Switching off this head alone changes the vectors by ${decimal(needed, 4)}`
                  }
                >
                  <input
                    type="checkbox"
                    tabIndex={chosen ? 0 : -1}
                    checked={!isOff}
                    onInput={() => toggle(name)}
                    aria-label={`Layer ${l + 1}, head ${h + 1} on`}
                  />
                  <span aria-hidden="true">{h + 1}</span>
                  {needed !== undefined && <span class="needed" style={{ '--share': needed / largest }} />}
                </label>
              </div>
            );
          })}
        </div>
      ))}
    </fieldset>
  );
}

/** How switched-off heads change the sentences' vectors, and which heads matter most. */
export function HeadEffect({ explorer }: { explorer: Explorer }) {
  const { off, texts, similarity, importance, opened, failure } = explorer;
  const unchanged = similarity.value?.view.unchanged ?? [];
  const measure = () => {
    inTurn(() => measureImportance(heed.value!, opened.value!.model, texts.value)).then(
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
          ? 'All heads are on. Clear a checkbox to switch a head off.'
          : `${plural(off.value.length, 'head')} off: the sentences’ vectors have a mean cosine of ${decimal(mean(unchanged), 4)} with the original ones (minimum ${decimal(least, 4)}).`}
      </p>
      <div class="buttons">
        <button type="button" onClick={measure}>
          Which heads matter?
        </button>
        {off.value.length > 0 && (
          <button type="button" onClick={() => (off.value = [])}>
            Switch all on
          </button>
        )}
      </div>
      {importance.value && <Ranking importance={importance.value} />}
    </div>
  );
}

function Ranking({ importance }: { importance: HeadImportance[] }) {
  const total = importance.reduce((sum, { change }) => sum + change, 0) || 1;
  const top = importance.slice(0, 3);
  return (
    <p>
      Switching off one head at a time,{' '}
      {top
        .map(
          ({ layer, head, change }) =>
            `layer ${layer! + 1} head ${head + 1} (${percent(change / total)} of the total change)`,
        )
        .join(', ')}{' '}
      matter most for these sentences. The bars show all heads.
    </p>
  );
}
