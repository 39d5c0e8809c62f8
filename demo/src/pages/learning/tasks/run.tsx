/** Run, pause, single steps, going back, a link to the present step; and the loss and the accuracy so far. */
import { CopyButton, Slider, Toggle } from '../../../components/controls';
import { count, decimal, percent } from '../../../components/numbers';
import { lastStep } from '../../../engine/learning/constants';
import { heldOut } from '../../../engine/learning/trainer';
import { currentLink } from '../../../state/url';
import { everyStep, linkedStep } from '../state';
import { calm, frame, measured, pause, restart, rewind, step, train, training } from './session';

export function RunControls() {
  const { saved, snapshot } = frame.value!;
  const at = saved.filter((one) => one <= snapshot.step).length - 1;
  const linkHere = () => {
    linkedStep.value = frame.peek()!.snapshot.step;
    return new URL(currentLink.value, location.href).href;
  };
  return (
    <section class="run" aria-label="Training">
      <div class="buttons">
        <button
          type="button"
          class="first"
          disabled={!training.value && snapshot.step >= lastStep}
          onClick={training.value ? pause : train}
        >
          {training.value ? 'Pause' : snapshot.step ? 'Go on' : 'Train'}
        </button>
        <button type="button" onClick={step}>
          One step
        </button>
        <button type="button" disabled={snapshot.step === 0 && !training.value} onClick={restart}>
          Start over
        </button>
        <CopyButton
          label="Copy link at this step"
          text={linkHere}
          disabled={training.value}
          title="Whoever opens the link sees the model trained to this step: the same settings and seed give the same steps"
        />
      </div>
      <Slider
        label="Go back to step"
        min={0}
        max={Math.max(1, saved.length - 1)}
        value={at}
        shown={count(saved[at]!)}
        disabled={saved.length < 2}
        onChange={(index) => rewind(saved[index]!)}
      />
      {!calm.matches && <Toggle label="Draw every step" state={everyStep} hint="off: as fast as possible" />}
    </section>
  );
}

/** Figures of the present step. Only where training stops is announced by screen readers. */
export function Progress() {
  const { snapshot, milliseconds } = frame.value!;
  const { loss, accuracy, step: measuredAt } = measured.value!;
  const heads = snapshot.sharpness.flatMap((of, layer) => of.map((share, head) => ({ share, layer, head })));
  const sharpest = heads.reduce((best, one) => (one.share > best.share ? one : best));
  const facts = [
    ['Step', count(snapshot.step), `${decimal(milliseconds / 1000, 1)} s of training`],
    ['Accuracy', percent(accuracy, 1), `on ${heldOut} held-out sequences, step ${count(measuredAt)}`],
    ['Loss', decimal(loss, 3), 'cross entropy on the same sequences'],
    [
      'Largest weight',
      percent(sharpest.share),
      `of a query, on average, in the head where it is largest: layer ${sharpest.layer + 1}, head ${sharpest.head + 1}`,
    ],
  ] as const;
  return (
    <section aria-label="Figures of this step">
      <dl class="figures">
        {facts.map(([name, value, note]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <strong>{value}</strong>
              <span>{note}</span>
            </dd>
          </div>
        ))}
      </dl>
      <p class="unseen" role="status">
        {training.value ? 'Training.' : `Step ${count(snapshot.step)}, accuracy ${percent(accuracy, 1)}.`}
      </p>
      {snapshot.step >= lastStep && <p class="facts">Training stops after {count(lastStep)} steps.</p>}
    </section>
  );
}
