/** A small transformer learns a task before the reader's eyes. */
import { useEffect } from 'preact/hooks';
import { Notice } from '../../../components/controls';
import { lesson, setLesson } from '../state';
import { Attention } from './attention';
import { Curves } from './curves';
import { Gradients } from './gradients';
import { presets } from './presets';
import { Progress, RunControls } from './run';
import { Sequence } from './sequence';
import { failure, follow, frame, measured, pause, retry, unavailable } from './session';
import { Settings } from './settings';

export function Lesson() {
  useEffect(() => {
    follow();
    return pause;
  }, []);
  return (
    <>
      <Examples />
      <div class="workbench">
        <Settings />
        <div class="flow">
          {failure.value && (
            <Notice kind="alert" title="Training stopped. ">
              {failure.value.message}
            </Notice>
          )}
          <Views />
        </div>
      </div>
    </>
  );
}

function Examples() {
  const chosen = lesson.preset.value;
  return (
    <section class="examples" aria-label="Examples">
      <div class="presets">
        {presets.map(({ id, name, settings }) => (
          <button
            type="button"
            key={id}
            aria-pressed={chosen === id}
            onClick={() => setLesson({ ...settings, preset: id })}
          >
            {name}
          </button>
        ))}
      </div>
      <p class="hint" aria-live="polite">
        {presets.find(({ id }) => id === chosen)?.notice}
      </p>
    </section>
  );
}

function Views() {
  if (unavailable.value)
    return (
      <Notice kind="alert" title="Training could not start. ">
        <p>{unavailable.value.message}</p>
        <p>
          <button type="button" onClick={retry}>
            Try again
          </button>
        </p>
      </Notice>
    );
  if (!frame.value || !measured.value)
    return (
      <p class="waiting" role="status">
        The model will appear here when the module for training has loaded.
      </p>
    );
  return (
    <>
      <RunControls />
      <Progress />
      <Sequence />
      <Attention />
      <div class="columns">
        <Curves />
        <Gradients />
      </div>
    </>
  );
}
