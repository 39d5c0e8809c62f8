/** Search in a document of the reader's: passages ranked by a question, the nearest sentence of each marked. */
import '../../../styles/document.css';
import type { ComponentChildren } from 'preact';
import { Notice } from '../../../components/controls';
import { useDrop } from '../../../components/drop';
import { count, milliseconds, plural } from '../../../components/numbers';
import { Readings } from '../../../components/readings';
import { canHover } from '../../../state/device';
import { asEntry } from '../../../state/url';
import { opened } from '../../model/choice';
import { mostText } from './file';
import { answers, sampleText } from './sample';
import type { DocumentSearch, Found } from './state';

/** Characters from which on text is inserted without the browser's editing, which takes a second for 200 KB. */
const longPaste = 20_000;

/** The characters of a document that are looked through for what the model cannot read. */
const readingNoted = 4000;

interface SectionProps {
  search: DocumentSearch;
  /** Whether files dropped on the page are documents. */
  takesDrops?: boolean;
  /** What the reader should know about the model. */
  children?: ComponentChildren;
}

export function DocumentSection({ search, takesDrops = false, children }: SectionProps) {
  const { written, question, found, problem, failure } = search;
  return (
    <section class="panel" aria-labelledby="document">
      <header>
        <h2 id="document">Search a document</h2>
        {found.value && <p class="timing">searched in {milliseconds(found.value.milliseconds)}</p>}
      </header>
      <p class="learn">
        The text is split into passages, and each of their sentences becomes a vector. A question finds the passages
        with the sentences whose vectors are nearest to its own; these sentences are marked. {children}
      </p>
      <div class="duo">
        <div class="document">
          <TextInput search={search} takesDrops={takesDrops} />
          {problem.value && <Notice kind="alert">{problem.value}</Notice>}
          <Reading search={search} />
          <Readings model={opened.value?.model} texts={[written.value.slice(0, readingNoted)]} inParts />
        </div>
        <div class="document">
          <label class="field">
            <span>Your question</span>
            <input
              type="text"
              autocomplete="off"
              maxLength={2000}
              value={question.value}
              onInput={(event) => (question.value = event.currentTarget.value)}
            />
          </label>
          {written.value === sampleText && (
            <div class="presets">
              {answers.map(([example]) => (
                <button
                  type="button"
                  key={example}
                  aria-pressed={question.value === example}
                  onClick={() => asEntry(() => (question.value = example))}
                >
                  {example}
                </button>
              ))}
            </div>
          )}
          {failure.value && <Notice kind="alert">{failure.value.message}</Notice>}
          <Readings model={opened.value?.model} texts={[question.value]} />
          {!question.value.trim() && <Notice>Ask a question to search the document.</Notice>}
          {found.value && <Results found={found.value.passages} />}
        </div>
      </div>
    </section>
  );
}

function TextInput({ search, takesDrops }: { search: DocumentSearch; takesDrops: boolean }) {
  const { written, problem } = search;
  const write = (text: string) => {
    problem.value = null;
    written.value = text;
  };
  const over = useDrop(takesDrops, (transfer) => {
    const [file] = transfer.files;
    if (file) void search.open(file);
    else problem.value = 'The browser did not provide a file. Use “Choose a text file” instead.';
  });
  return (
    <>
      <label class="field">
        <span>
          {over
            ? 'Drop the file to search it'
            : `Your document: paste a text${takesDrops && canHover ? ', or drop a text file on this page' : ''}`}
        </span>
        <textarea
          rows={11}
          class={over ? 'over' : ''}
          value={written.value}
          spellcheck={false}
          onInput={(event) => write(event.currentTarget.value)}
          onPaste={(event) => {
            const pasted = event.clipboardData?.getData('text/plain') ?? '';
            if (pasted.length < longPaste) return;
            event.preventDefault();
            const box = event.currentTarget;
            box.setRangeText(pasted, box.selectionStart, box.selectionEnd, 'end');
            write(box.value);
          }}
        />
      </label>
      {written.value.length > mostText && <Notice>Only the first {count(mostText)} characters are searched.</Notice>}
      <div class="buttons">
        <label class="button">
          Choose a text file
          <input
            type="file"
            accept="text/*,.txt,.md,.csv,.tex,.srt"
            onChange={(event) => {
              const [file] = event.currentTarget.files ?? [];
              if (file) void search.open(file);
              event.currentTarget.value = '';
            }}
          />
        </label>
        {written.value && (
          <button type="button" onClick={() => write('')}>
            Clear
          </button>
        )}
      </div>
    </>
  );
}

/** How much of the document has been read. */
function Reading({ search }: { search: DocumentSearch }) {
  const { written, index, reading, stopped } = search;
  const { passages, total } = index.value;
  if (!written.value.trim()) return <Notice>Paste a text or choose a file to search it.</Notice>;
  const isIncomplete = passages.length < total;
  return (
    <div class="reading">
      <p role="status" class="timing">
        {stopped.value && isIncomplete
          ? `Stopped: ${count(passages.length)} of ${plural(total, 'passage')} can be searched.`
          : reading.value && isIncomplete
            ? 'Reading the document …'
            : total > 0 && `${plural(total, 'passage')}, all read.`}
      </p>
      {reading.value && isIncomplete && (
        <>
          <progress aria-label="Passages read" value={passages.length} max={total} />
          <span class="timing">
            {count(passages.length)} of {count(total)} passages
          </span>
          <button type="button" onClick={search.stop}>
            Stop
          </button>
        </>
      )}
      {stopped.value && isIncomplete && (
        <button type="button" onClick={search.resume}>
          Continue
        </button>
      )}
    </div>
  );
}

function Results({ found }: { found: Found[] }) {
  return (
    <ol class="passages">
      {found.map(({ passage, best, score }) => (
        <li key={passage.join(' ')}>
          <p>
            {passage.map((sentence, i) => (
              <>
                {i > 0 && ' '}
                {i === best ? <mark>{sentence}</mark> : sentence}
              </>
            ))}
          </p>
          <span class="score">{score.toFixed(2)}</span>
        </li>
      ))}
    </ol>
  );
}
