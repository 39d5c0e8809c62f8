/** A chosen or dropped folder as a flat list of files. */

export interface LocalFile {
  path: string;
  file: File;
}

/** A model has few files; whoever drops a whole disk should not wait for it to be listed. */
const mostFiles = 500;

/** The dropped files, or null if the browser passes on none: WebKitGTK only gives the address of a dropped folder. */
export async function droppedFiles(transfer: DataTransfer): Promise<LocalFile[] | null> {
  // Both lists are emptied when the event handler returns.
  const files = chosenFiles(transfer.files);
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (entries.length === 0) return files.length > 0 ? files : null;
  const found: LocalFile[] = [];
  for (const entry of entries) await collect(entry, '', found);
  return found;
}

export function chosenFiles(list: FileList): LocalFile[] {
  return [...list].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
}

async function collect(entry: FileSystemEntry, folder: string, found: LocalFile[]): Promise<void> {
  if (found.length >= mostFiles || entry.name.startsWith('.')) return;
  const path = folder + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    found.push({ path, file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    // A reader returns at most a hundred entries per call, and none at the end.
    const batch = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (batch.length === 0) return;
    for (const child of batch) await collect(child, `${path}/`, found);
  }
}
