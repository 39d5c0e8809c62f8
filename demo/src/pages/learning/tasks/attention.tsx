/** The attention weights of every head on the sequence, and one of them large. */
import { moveInRows } from '../../../components/arrow-keys';
import { HeadAttention } from '../../../components/head-attention';
import { HeatMap } from '../../../components/heat-map';
import { percent } from '../../../components/numbers';
import { symbol } from '../../../engine/learning/tasks';
import { shownHead } from '../state';
import { frame, training } from './session';

export function Attention() {
  const { snapshot, ids } = frame.value!;
  const { weights } = snapshot;
  const l = Math.min(shownHead.place.value.layer, weights.length - 1);
  const h = Math.min(shownHead.place.value.head, weights[l]!.length - 1);
  return (
    <section class="large" aria-labelledby="attention-title">
      <h2 class="unseen" id="attention-title">
        Attention in this sequence
      </h2>
      <fieldset
        class="head-grid"
        aria-label="Heads of both layers; arrow keys move between them"
        onKeyDown={(event) => moveInRows(event, '.head-row')}
      >
        {weights.map((heads, layer) => (
          <div class="head-row" key={layer} style={{ '--heads': heads.length }}>
            <span class="layer-name">Layer {layer + 1}</span>
            {heads.map((map, head) => (
              <div class="head" key={head}>
                <button
                  type="button"
                  tabIndex={layer === l && head === h ? 0 : -1}
                  aria-pressed={layer === l && head === h}
                  aria-label={`Show layer ${layer + 1}, head ${head + 1}`}
                  onClick={() => {
                    shownHead.place.value = { layer, head };
                  }}
                >
                  <HeatMap weights={map} length={ids.length} />
                </button>
                <small>{percent(snapshot.sharpness[layer]![head]!)}</small>
              </div>
            ))}
          </div>
        ))}
      </fieldset>
      <HeadAttention
        layer={l}
        head={h}
        view={shownHead.view}
        tokens={ids.map((id, position) => symbol(id) + subscript(position + 1))}
        weights={weights[l]![h]!}
        pinned={shownHead.token}
        changing={training.value}
      />
      <p class="learn">
        One row per query, one column per key; stronger colours are larger weights. The number below each small map is
        the largest weight of a query, on average.
      </p>
    </section>
  );
}

/** Digits occur several times, so tokens show their positions. */
const subscript = (position: number): string =>
  [...String(position)].map((digit) => '₀₁₂₃₄₅₆₇₈₉'[Number(digit)]).join('');
