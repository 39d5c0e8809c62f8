/** A small transformer learns a task before the reader's eyes. */
import { computed } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Notice } from '../../../components/controls';
import { Examples } from '../../../components/examples';
import { Failed } from '../../../components/failed';
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
import { failure, follow, frame, measured, pause, retry, training, unavailable } from './session';
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
    return <Failed what="The training" title="Training could not start. " of={unavailable.value} retry={retry} />;
  if (isRecorded.value) return <Arriving />;
  if (!frame.value || !measured.value)
    return (
      <p class="waiting" role="status">
        The model will appear here when the module for training has loaded
        {linkedStep.value > 0 && `, and will be trained to step ${count(linkedStep.value)}`}.
      </p>
    );
  return (
    <>
      <RunControls />
      {isArriving.value && training.value && <OnTheWay />}
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

/** A link names a step that the model in this tab has not been trained to yet. */
const isArriving = computed(() => (frame.value?.snapshot.step ?? 0) < linkedStep.value);
/** The run to that step is recorded. */
const isRecorded = computed(
  () => isArriving.value && JSON.stringify(trainerSettings.value) === JSON.stringify(openingSettings),
);

/** What is shown below is not yet the step of the link, of whose run nothing is recorded. */
function OnTheWay() {
  const { step } = frame.value!.snapshot;
  return (
    <div class="arriving" id="on-the-way">
      <p role="status">
        The link is to step {count(linkedStep.value)}. No run with these settings is recorded, so the model in this tab
        is trained to that step; what you see is the way there.
      </p>
      <progress aria-label="Training" value={step} max={linkedStep.value} />
    </div>
  );
}

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
