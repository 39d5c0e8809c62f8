/** The task, and which parts the model has. */
import { Choice, Slider, Stepper, Toggle } from '../../../components/controls';
import { decimal, percent } from '../../../components/numbers';
import { batchSize } from '../../../engine/learning/trainer';
import { headCounts, lesson, widths } from '../state';

/** On a phone the settings are collapsed. */
const wide = matchMedia('(min-width: 60rem)').matches;

export function Settings() {
  return (
    <details class="settings" open={wide}>
      <summary>Settings</summary>
      <section aria-label="Task">
        <h2 class="unseen">Task</h2>
        <label class="field">
          <span class="unseen">To learn</span>
          <select
            value={lesson.task.value}
            onChange={(event) => {
              lesson.task.value = event.currentTarget.value as typeof lesson.task.value;
            }}
          >
            <option value="reverse">reverse 10 digits</option>
            <option value="sort">sort 10 digits</option>
            <option value="copy">copy 8 digits (decoder)</option>
            <option value="repeated">find the repeated digit</option>
          </select>
        </label>
      </section>
      <section aria-label="Model">
        <h2>Model: two layers</h2>
        <Choice label="Heads" state={lesson.heads} options={headCounts.map((heads) => [heads, heads] as const)} />
        <Choice label="Width" state={lesson.width} options={widths.map((width) => [width, width] as const)} />
        <Toggle label="Positions" state={lesson.positions} hint="added to the embeddings" />
        <Toggle label="Scale by 1/√d" state={lesson.scale} />
        <Toggle label="Layer norm" state={lesson.layerNorm} />
        <Slider
          label="Dropout"
          min={0}
          max={0.5}
          step={0.05}
          value={lesson.dropout.value}
          shown={percent(lesson.dropout.value)}
          onChange={(value) => {
            lesson.dropout.value = value;
          }}
        />
      </section>
      <section aria-label="Optimizer">
        <h2>AdamW, batches of {batchSize}</h2>
        <Slider
          label="Learning rate"
          min={-4}
          max={-1}
          step={0.25}
          value={Math.log10(lesson.rate.value)}
          shown={decimal(lesson.rate.value, 4)}
          onChange={(power) => {
            lesson.rate.value = Number((10 ** power).toPrecision(1));
          }}
        />
        <Stepper
          label="Seed"
          min={0}
          max={99}
          value={lesson.seed.value}
          onChange={(value) => {
            lesson.seed.value = value;
          }}
        />
      </section>
    </details>
  );
}
