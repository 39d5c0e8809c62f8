/** The texts in a plane, before and after learning. */
import { Choice } from '../../../components/controls';
import { percent, short } from '../../../components/numbers';
import { Plot } from '../../../components/plot';
import { heed } from '../../../engine/heed';
import { principalPlane, turned } from '../../../engine/views';
import { series } from '../../inside/projection';
import { mapView } from '../state';
import { result } from './state';

export function TextMap() {
  const { examples, taught, test } = result.value!;
  if (!heed.value) return null;
  const isAfter = mapView.value === 'after';
  const rowsOf = (after: boolean) =>
    after
      ? [...taught.logits, ...(test ? [test.tested.logits] : [])]
      : [...taught.vectors, ...(test ? [test.tested.vector] : [])];
  const before = principalPlane(heed.value, rowsOf(false));
  const { points, kept } = isAfter ? principalPlane(heed.value, rowsOf(true)) : before;
  const placed = isAfter ? turned(points, before.points) : points;
  const dots = placed.map(([x, y], i) => {
    const example = examples[i];
    const label = example ? taught.labels.indexOf(example.label) : test!.tested.label;
    return { x, y, label, text: example?.text ?? test!.text, isTest: !example };
  });
  return (
    <section aria-labelledby="map-title">
      <header class="bar">
        <h2 id="map-title">Map</h2>
        <Choice
          label="Texts"
          state={mapView}
          options={[
            ['before', 'before'],
            ['after', 'after learning'],
          ]}
        />
      </header>
      <p class="learn">
        {isAfter
          ? 'The outputs of the trained layer (logits): examples with the same label move together.'
          : 'The encoder’s vectors, which do not change.'}{' '}
        The two principal components explain {percent(kept)} of the variance. The ring marks the text that you try.
      </p>
      <ol class="legend">
        {taught.labels.map((label, i) => (
          <li key={label}>
            <span class="swatch" style={{ background: series[i % series.length] }} /> {label}
          </li>
        ))}
      </ol>
      <Plot
        glide
        label={`${examples.length} texts of ${taught.labels.length} labels in two dimensions, ${isAfter ? 'after' : 'before'} learning.`}
        dependencies={[result.value, isAfter]}
        draw={(plot, width) =>
          plot.plot({
            width,
            height: Math.min(420, Math.max(260, width * 0.6)),
            margin: 20,
            x: { axis: null },
            y: { axis: null },
            color: { type: 'categorical', domain: taught.labels.map((_, i) => i), range: [...series] },
            marks: [
              plot.frame({ rx: 6, stroke: 'var(--line)', inset: -19 }),
              plot.dot(
                dots.filter(({ isTest }) => !isTest),
                { x: 'x', y: 'y', fill: 'label', r: 5, title: ({ text }) => text },
              ),
              plot.dot(
                dots.filter(({ isTest }) => isTest),
                { x: 'x', y: 'y', stroke: 'label', strokeWidth: 3, r: 9, title: ({ text }) => short(text, 60) },
              ),
            ],
          })
        }
      />
    </section>
  );
}
