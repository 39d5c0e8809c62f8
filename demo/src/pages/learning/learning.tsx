/** The two parts of the page “Learning”. */
import { Choice } from '../../components/controls';
import '../../styles/learning.css';
import { Labels } from './labels/labels';
import { part } from './state';
import { Lesson } from './tasks/lesson';

export function LearningContent() {
  return (
    <div class="learning">
      <div class="parts">
        <Choice
          label="Part"
          state={part}
          options={[
            ['tasks', 'Watch attention learn'],
            ['labels', 'Teach it your labels'],
          ]}
        />
      </div>
      {part.value === 'tasks' ? <Lesson /> : <Labels />}
    </div>
  );
}
