/** The examples: one row of two fields each, with remarks beside the field; or from a file. */
import { useRef, useState } from 'preact/hooks';
import { Notice } from '../../../components/controls';
import { useDrop } from '../../../components/drop';
import { plural } from '../../../components/numbers';
import { type LabelledText, type Remark, readExamples } from '../../../engine/learning/examples';
import { canHover } from '../../../state/device';
import { asEntry } from '../../../state/url';
import { ownExamples } from '../state';
import { checked, examples, result } from './state';

/** The rows that are shown: there is always an empty one to write into. */
function rows(): LabelledText[] {
  const given = examples.value;
  const last = given.at(-1);
  return last && last.text === '' && last.label === '' ? given : [...given, { text: '', label: '' }];
}

function edit(at: number, change: Partial<LabelledText>): void {
  const next = rows().map((row, i) => (i === at ? { ...row, ...change } : row));
  while (next.length > 0 && next.at(-1)!.text === '' && next.at(-1)!.label === '') next.pop();
  ownExamples.value = next;
}

export function Editor() {
  const list = useRef<HTMLOListElement>(null);
  const shown = rows();
  const { usable, missing } = checked.value;
  const labels = [...new Set(usable.map(({ label }) => label))];
  const remove = (at: number) => {
    ownExamples.value = examples.value.filter((_, i) => i !== at);
    list.current!.querySelectorAll('input')[2 * Math.max(0, at - 1)]?.focus();
  };
  return (
    <section class="editor" aria-labelledby="examples-title">
      <header>
        <h2 id="examples-title">Examples</h2>
        <p class="timing">
          {plural(usable.length, 'example')} of {plural(labels.length, 'label')}; the model learns as you type
        </p>
      </header>
      {missing && <Notice>{missing}</Notice>}
      <datalist id="known-labels">
        {labels.map((label) => (
          <option key={label} value={label} />
        ))}
      </datalist>
      <ol ref={list}>
        {shown.map((row, i) => (
          <Row key={i} row={row} at={i} onRemove={i < examples.value.length ? () => remove(i) : undefined} />
        ))}
      </ol>
      <FromFile />
    </section>
  );
}

function Row({ row, at, onRemove }: { row: LabelledText; at: number; onRemove: (() => void) | undefined }) {
  const remarks = [checked.value.remarks.get(at), remarkOnTokens(at)].filter((remark) => remark !== undefined);
  const idOf = ({ about }: Remark) => `remark-${at}-${about}`;
  const describe = (about: 'text' | 'label') => {
    const remark = remarks.find((one) => one.about === about);
    return remark ? { 'aria-describedby': idOf(remark), 'aria-invalid': remark.leftOut } : {};
  };
  return (
    <li class={remarks.some(({ leftOut }) => leftOut) ? 'left-out' : ''}>
      <input
        type="text"
        aria-label={`Text ${at + 1}`}
        placeholder={row.label === '' ? 'A text' : ''}
        value={row.text}
        autocomplete="off"
        onInput={(event) => edit(at, { text: event.currentTarget.value })}
        {...describe('text')}
      />
      <input
        type="text"
        aria-label={`Label ${at + 1}`}
        placeholder={row.text === '' ? 'Its label' : ''}
        value={row.label}
        list="known-labels"
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => edit(at, { label: event.currentTarget.value })}
        {...describe('label')}
      />
      <button type="button" aria-label={`Remove example ${at + 1}`} disabled={!onRemove} onClick={onRemove}>
        ×
      </button>
      {remarks.map((remark) => (
        <p class="remark" id={idOf(remark)} key={remark.about}>
          {remark.message}
        </p>
      ))}
    </li>
  );
}

/** Known only after the text has been embedded. */
function remarkOnTokens(at: number): Remark | undefined {
  const n = checked.value.positions.indexOf(at);
  if (n < 0 || !result.value) return undefined;
  const { truncated, unknown } = result.value.taught;
  if (truncated.includes(n))
    return { about: 'text', message: 'Longer than the model reads: the end was cut off.', leftOut: false };
  if (unknown.includes(n))
    return {
      about: 'text',
      message: 'Nothing in this text is in the model’s vocabulary, so nothing is learned from it.',
      leftOut: false,
    };
  return undefined;
}

/** Larger files have more examples than are learned. */
const largestFile = 5e6;

function FromFile() {
  const [said, say] = useState('');
  const add = async (file: File | undefined) => {
    if (!file) return;
    try {
      if (file.size > largestFile) throw new Error('The file is larger than 5 MB.');
      const read = await readExamples(file.name, await file.text());
      ownExamples.value = [...examples.peek(), ...read];
      say(`${plural(read.length, 'example')} added from ${file.name}.`);
    } catch (reason) {
      say(`${file.name} was not added. ${(reason as Error).message}`);
    }
  };
  const over = useDrop(true, (transfer) => void add(transfer.files[0]));
  return (
    <div class={`from-file ${over ? 'over' : ''}`}>
      <div class="buttons">
        <label class="button">
          Add a file
          <input
            type="file"
            accept=".csv,.tsv,.jsonl,.ndjson,.txt"
            onChange={(event) => {
              void add(event.currentTarget.files?.[0]);
              event.currentTarget.value = '';
            }}
          />
        </label>
        <RemoveAll />
      </div>
      <p class="facts">
        {over
          ? 'Drop the file to add its examples.'
          : `${canHover ? 'Or drop one here: ' : ''}CSV or JSON Lines with “text” and “label”.`}
      </p>
      <p role="status" class="facts">
        {said}
      </p>
    </div>
  );
}

/** After it, the same button brings the examples back, until others are written; so does the browser's Back button. */
function RemoveAll() {
  const [removed, keep] = useState<LabelledText[] | null>(null);
  const isEmpty = examples.value.length === 0;
  if (removed && isEmpty)
    return (
      <button type="button" onClick={() => (ownExamples.value = removed)}>
        Undo
      </button>
    );
  return (
    <button
      type="button"
      aria-disabled={isEmpty}
      onClick={() => {
        if (isEmpty) return;
        keep(examples.peek());
        asEntry(() => (ownExamples.value = []));
      }}
    >
      Remove all
    </button>
  );
}
