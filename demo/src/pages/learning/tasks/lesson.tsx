/** A small transformer learns a task before the reader's eyes. */
import { computed } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Notice, RetryNotice } from '../../../components/controls';
import { Examples } from '../../../components/examples';
import { count, percent } from '../../../components/numbers';
import { openingSettings } from '../../../engine/learning/recording';
import { taskCode } from '../../code/task';
import { RecordedMap } from '../../see/recorded';
import recorded from '../../see/recorded.json';
import { learningProgram, lesson, linkedStep, setLesson, trainerSettings } from '../state';
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
    learningProgram.value = () => {
      const { snapshot, ids } = frame.value ?? {};
      return snapshot ? taskCode(trainerSettings.value, snapshot.step, ids!) : null;
    };
    return () => {
      pause();
      learningProgram.value = null;
    };
  }, []);
  return (
    <>
      <Examples
        examples={presets}
        chosen={lesson.preset.value}
        choose={({ id, settings }) => setLesson({ ...settings, preset: id })}
      />
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

function Views() {
  if (unavailable.value)
    return <RetryNotice title="Training could not start. " message={unavailable.value.message} retry={retry} />;
  if (isArriving.value) return <Arriving />;
  if (!frame.value || !measured.value)
    return (
      <p class="waiting" role="status">
        The model will appear here when the module for training has loaded.
      </p>
    );
  return (
    <>
      <RunControls />
      <div class="stage">
        <Attention />
        <div class="beside">
          <Sequence />
          <Curves />
        </div>
      </div>
      <div class="columns">
        <Progress />
        <Gradients />
      </div>
    </>
  );
}

/** A link names a step that the model in this tab has not been trained to yet, of the run that is recorded. */
const isArriving = computed(
  () =>
    (frame.value?.snapshot.step ?? 0) < linkedStep.value &&
    JSON.stringify(trainerSettings.value) === JSON.stringify(openingSettings),
);

/** The recorded run at that step, until the model has been trained to it. */
function Arriving() {
  const at = Math.min(recorded.maps.length - 1, Math.round(linkedStep.value / recorded.every));
  return (
    <section class="arriving" aria-label="The recorded run">
      <RecordedMap at={at} />
      <p role="status">
        Step {count(recorded.every * at)} of a recorded run: {percent(recorded.accuracies[at]! / 1000)} of the answers
        right. The model in this tab is being trained to step {count(linkedStep.value)} with the same settings.
      </p>
      <progress aria-label="Training" value={frame.value?.snapshot.step ?? 0} max={linkedStep.value} />
    </section>
  );
}
