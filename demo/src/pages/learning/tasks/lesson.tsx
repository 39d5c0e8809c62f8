/** A small transformer learns a task before the reader's eyes. */
import { useEffect } from 'preact/hooks';
import { Notice, RetryNotice } from '../../../components/controls';
import { Examples } from '../../../components/examples';
import { taskCode } from '../../code/task';
import { learningProgram, lesson, setLesson, trainerSettings } from '../state';
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
