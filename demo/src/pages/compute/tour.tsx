/** The guided tour above the matrices of “Compute”; with large type and keys, it is what a lecturer shows. */
import { effect, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Toggle } from '../../components/controls';
import { CourseChapter } from '../../components/course-chapter';
import '../../styles/tour.css';
import { canHover } from '../../state/device';
import { hand, setAll } from './state';
import { steps } from './tour-data';
import { isLarge, tour, tourReady } from './tour-state';

/** The preset that a step's settings have, so that a link with other settings of the reader keeps them. */
const presetOf = (step: number) => `tour-${step}`;

function show(step: number): void {
  const { settings, at } = steps[step - 1]!;
  setAll({ ...settings, preset: presetOf(step) }, at);
}

effect(() => {
  const step = tour.value;
  if (step > 0 && hand.preset.peek() !== presetOf(step)) show(step);
});

tourReady.value = true;

const go = (by: number): void => {
  tour.value = Math.max(1, Math.min(steps.length, tour.peek() + by));
};

function leave(): void {
  tour.value = 0;
  isLarge.value = false;
  setAll({});
  if (document.fullscreenElement) void document.exitFullscreen();
}

/** Arrow keys and those of presenters, where they have no other meaning. */
const keys: Record<string, number> = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 };

function press(event: KeyboardEvent): void {
  const by = keys[event.key];
  const isElsewhere = (event.target as Element).closest('input, select, textarea, table, summary');
  if (!by || isElsewhere || event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
  event.preventDefault();
  go(by);
}

export function Tour() {
  const step = tour.value || 1;
  const { title, chapter, why, attempt } = steps[step - 1]!;
  const tried = useSignal(0);
  useEffect(() => {
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
  const isLecture = isLarge.value;
  useEffect(() => {
    document.documentElement.classList.toggle('lecture', isLecture);
    return () => document.documentElement.classList.remove('lecture');
  }, [isLecture]);
  return (
    <section class="tour" aria-labelledby="tour-title">
      <header>
        <p class="timing">
          Step {step} of {steps.length}
        </p>
        <nav class="buttons" aria-label="Steps of the tour">
          <button type="button" aria-disabled={step === 1} onClick={() => go(-1)}>
            Previous
          </button>
          <button type="button" class="first" aria-disabled={step === steps.length} onClick={() => go(1)}>
            Next
          </button>
        </nav>
        {canHover && <span class="timing">Keys: ← →, Page Up, Page Down</span>}
        <Toggle label="Large type" state={isLarge} />
        {document.fullscreenEnabled && (
          <button
            type="button"
            onClick={() =>
              document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen()
            }
          >
            Full screen
          </button>
        )}
        <button type="button" onClick={leave}>
          End the tour
        </button>
      </header>
      <div class="tour-text" aria-live="polite">
        <h1 id="tour-title">{title}</h1>
        <p>{why}</p>
        <p class="attempt">
          <button
            type="button"
            onClick={() => {
              for (const [name, value] of Object.entries(attempt.settings))
                (hand[name as keyof typeof hand] as { value: unknown }).value = value;
              tried.value = step;
            }}
          >
            Try: {attempt.label}
          </button>{' '}
          <button
            type="button"
            onClick={() => {
              show(step);
              tried.value = 0;
            }}
          >
            Start this step again
          </button>{' '}
          {tried.value === step && attempt.see}
        </p>
        <p class="timing">
          More: <CourseChapter of={chapter} />
        </p>
      </div>
    </section>
  );
}
