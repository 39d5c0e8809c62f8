/**
 * Where the model comes from: public checkpoints, a folder of the reader's, or an address. While one is loading, the buttons do nothing, but are not disabled: a
 * disabled button loses the focus.
 */
import { Choice } from '../../components/controls';
import { useDrop } from '../../components/drop';
import { bytes } from '../../components/numbers';
import { canHover } from '../../state/device';
import { addressOf, checkpoints, hostOf } from './address';
import { chosenFiles, droppedFiles } from './drop';
import { deleteKept, dtype, failure, kept, openCheckpoint, openFiles, openUrl, progress, url } from './state';

const noFiles =
  'The browser did not provide the files. Some browsers do not let a page read a dropped folder; use “Choose a folder” instead.';

export function Source() {
  const isLoading = progress.value !== null;
  const over = useDrop(true, (transfer) => {
    if (progress.value) return;
    void droppedFiles(transfer).then((dropped) => {
      if (dropped) openFiles(dropped);
      else failure.value = { message: noFiles };
    });
  });
  return (
    <section id="source" tabIndex={-1} class={`drop ${over && !isLoading ? 'over' : ''}`} aria-label="Model source">
      <h2>
        {isLoading
          ? 'Cancel the download to open a folder'
          : over
            ? 'Drop the folder to open it'
            : canHover
              ? 'Drop a model folder here'
              : 'Open a model of your own'}
      </h2>
      <div class="row">
        <label class="button first">
          Choose a folder
          <input
            type="file"
            {...{ webkitdirectory: true }}
            multiple
            aria-disabled={isLoading}
            onChange={(event) => {
              const input = event.currentTarget;
              if (input.files?.length) openFiles(chosenFiles(input.files));
              input.value = '';
            }}
          />
        </label>
        <Choice
          label="Precision"
          state={dtype}
          options={[
            ['fp32', 'fp32: full precision'],
            ['q8', 'int8: smaller, faster'],
          ]}
        />
      </div>
      <Checkpoints />
      <Address />
      {kept.value && (
        <p class="timing">
          Models that you download from a hub are kept in this browser, so that the next visit need not download them
          again.{' '}
          <button type="button" onClick={() => void deleteKept().then(focusSource)}>
            Delete them
          </button>
        </p>
      )}
    </section>
  );
}

/** After a button that disappears when it is pressed. */
export const focusSource = (): void => document.getElementById('source')?.focus({ preventScroll: true });

function Checkpoints() {
  return (
    <div class="checkpoints">
      <h3>Or download a public model</h3>
      <ul>
        {checkpoints.map((checkpoint) => (
          <li key={checkpoint.id}>
            <p>
              <a href={addressOf(checkpoint)} target="_blank" rel="noreferrer">
                {checkpoint.id.split('/')[1]}
              </a>
              <span class="timing">{checkpoint.about}</span>
            </p>
            <button
              type="button"
              aria-disabled={progress.value !== null}
              aria-label={`Download ${bytes(checkpoint.bytes)} from ${hostOf(addressOf(checkpoint))}: ${checkpoint.id.split('/')[1]}`}
              onClick={() => openCheckpoint(checkpoint)}
            >
              Download {bytes(checkpoint.bytes)} from {hostOf(addressOf(checkpoint))}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Address() {
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        openUrl();
      }}
    >
      <label class="field">
        Or enter the address of a model’s page on a hub, or of a folder whose host allows other sites to read it
        <input
          type="text"
          inputMode="url"
          autocomplete="off"
          placeholder="https://huggingface.co/owner/name"
          value={url.value}
          onInput={(event) => (url.value = event.currentTarget.value)}
        />
      </label>
      <button type="submit" class={url.value ? 'first' : ''} aria-disabled={progress.value !== null}>
        Open
      </button>
    </form>
  );
}
