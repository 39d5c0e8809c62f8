/** The two parts of the page “Learning”. */
import '../../styles/panels.css';
import '../../styles/learning.css';
import { Labels } from './labels/labels';
import { part } from './state';
import { Lesson } from './tasks/lesson';

export function LearningContent() {
  return <div class="learning">{part.value === 'tasks' ? <Lesson /> : <Labels />}</div>;
}
