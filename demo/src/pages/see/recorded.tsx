/** “Watch it learn”, as recorded: plays by itself, and leads to the page where it is trained. */
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { percent } from '../../components/numbers';
import { type Recording, read } from '../../engine/learning/recording-format';
import { heatColour } from '../../state/theme';
import { links } from '../../state/url';
import { startsTraining } from '../learning/state';
import recording from './recorded.json';

const { layer, head, length, every, accuracies, maps } = recording as Recording;

const at = signal(maps.length - 1);
/** Whether it plays by itself: not for readers who prefer reduced motion, until they start it. */
const plays = signal(!matchMedia('(prefers-reduced-motion: reduce)').matches);
const frame = 140;
/** Frames for which the end is shown. */
const rest = 18;

function play(): () => void {
  if (!plays.value) return () => {};
  let count = at.peek();
  const timer = setInterval(() => {
    if (document.hidden) return;
    count = (count + 1) % (maps.length + rest);
    at.value = Math.min(count, maps.length - 1);
  }, frame);
  return () => clearInterval(timer);
}

export function Recorded() {
  useEffect(play, [plays.value]);
  return (
    <div class="recorded chapter">
      <h2>Watch attention learn</h2>
      <p class="learn">A small transformer learns to reverse ten digits: its weights find the mirrored positions.</p>
      <RecordedMap at={at.value} />
      <p class="facts">
        A recorded run: step {every * at.value}, {percent(accuracies[at.value]! / 1000)} of the answers right. Layer{' '}
        {layer + 1}, head {head + 1}.
      </p>
      <div class="buttons">
        <a
          class="button first"
          href={links.learn.value}
          onClick={() => {
            startsTraining.value = true;
          }}
        >
          Train it here
        </a>
        <button
          type="button"
          onClick={() => {
            plays.value = !plays.value;
          }}
        >
          {plays.value ? 'Pause' : 'Play'}
        </button>
      </div>
    </div>
  );
}

/** The map of the recording at an index. */
export function RecordedMap({ at }: { at: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colour = heatColour.value;
  useEffect(() => {
    const context = canvas.current!.getContext('2d')!;
    const image = context.createImageData(length, length);
    // As the page itself draws them: a power below 1 makes small differences visible.
    for (const [i, weight] of read(maps[at]!).entries()) image.data.set([...colour, 255 * weight ** 0.6], 4 * i);
    context.putImageData(image, 0, 0);
  }, [at, colour]);
  return (
    <canvas
      ref={canvas}
      class="heat"
      width={length}
      height={length}
      role="img"
      aria-label={`Attention weights of ${length} digits to each other, in the course of the training`}
    />
  );
}
