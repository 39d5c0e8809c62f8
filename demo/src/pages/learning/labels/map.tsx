/** The texts in a plane: before learning, and as they move while the layer learns. */
import { computed, effect, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Choice, Slider } from '../../../components/controls';
import { MovingDots } from '../../../components/moving-dots';
import { percent } from '../../../components/numbers';
import { heed } from '../../../engine/heed';
import { moments, recipe } from '../../../engine/learning/examples';
import { series } from '../../inside/projection';
import { mapView } from '../state';
import { mapPoints } from './map-points';
import { result } from './state';

const calm = matchMedia('(prefers-reduced-motion: reduce)');
/** Milliseconds between two moments. */
const pause = 90;
const end = moments.length - 1;

const moment = signal(end);
const map = computed(() => (heed.value && result.value ? mapPoints(heed.value, result.value) : null));
/** All that is to be visible. */
const room = computed(() => (mapView.value === 'after' ? map.value?.path.flat() : map.value?.before) ?? []);

let timer: ReturnType<typeof setInterval> | undefined;
const stop = () => clearInterval(timer);

function play(): void {
  stop();
  moment.value = 0;
  timer = setInterval(() => {
    if (moment.value < end) moment.value++;
    else stop();
  }, pause);
}

/** Plays the first training by itself; later ones, while examples are edited, go on from where the texts are. */
function followFirst(): () => void {
  let isFirst = true;
  const unfollow = effect(() => {
    if (!map.value || !isFirst) return;
    isFirst = false;
    if (mapView.peek() === 'after' && !calm.matches) play();
  });
  return () => {
    unfollow();
    stop();
    moment.value = end;
  };
}

export function TextMap() {
  useEffect(followFirst, []);
  const { examples, taught, test } = result.value!;
  if (!map.value) return null;
  const { before, path, kept, right } = map.value;
  const isAfter = mapView.value === 'after';
  const texts = [...examples.map(({ text, label }) => ({ text, label: taught.labels.indexOf(label) }))];
  if (test) texts.push({ text: test.text, label: test.tested.label });
  const epoch = moments[moment.value]!;
  const when = isAfter ? `after ${epoch} of ${recipe.epochs} epochs` : 'before learning';
  return (
    <section aria-labelledby="map-title">
      <header class="bar">
        <h2 id="map-title">Map</h2>
        <Choice
          label="Texts"
          state={mapView}
          options={[
            ['before', 'before'],
            ['after', 'while learning'],
          ]}
        />
      </header>
      <p class="learn">
        {isAfter
          ? 'The outputs of the trained layer (logits), which begin as zeros: examples with the same label move together.'
          : 'The encoder’s vectors, which do not change.'}{' '}
        The two principal components explain {percent(isAfter ? kept.after : kept.before)} of the variance
        {isAfter && ' at the end'}. The ring marks the text that you try.
      </p>
      <ol class="legend">
        {taught.labels.map((label, i) => (
          <li key={label}>
            <span class="swatch" style={{ background: series[i % series.length] }} /> {label}
          </li>
        ))}
      </ol>
      <MovingDots
        label={`${examples.length} texts of ${taught.labels.length} labels in two dimensions, ${when}.`}
        dots={texts.map(({ text, label }, i) => ({
          colour: series[label % series.length]!,
          title: text,
          isRing: i >= examples.length,
        }))}
        places={isAfter ? path[moment.value]! : before}
        room={room.value}
      />
      {isAfter && (
        <>
          <div class="replay">
            <button type="button" onClick={play}>
              Play the training
            </button>
            <Slider
              label="Epoch"
              min={0}
              max={end}
              value={moment.value}
              shown={String(epoch)}
              onChange={(value) => {
                stop();
                moment.value = value;
              }}
            />
          </div>
          <p class="facts" id="map-right">
            After {epoch} epochs, {right[moment.value]} of {examples.length} examples get their label.
          </p>
        </>
      )}
    </section>
  );
}
