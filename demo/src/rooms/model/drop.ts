/** A dropped folder as a flat list of files with their paths. */

export interface DroppedFile {
  path: string;
  file: File;
}

/** Folders of repositories hold thousands of files below .git; a model's own are few. */
const mostFiles = 500;

export async function droppedFiles(transfer: DataTransfer): Promise<DroppedFile[]> {
  // The lists are emptied when the event is over, so they are taken first.
  const files = chosenFiles(transfer.files);
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (entries.length === 0) return files;
  const found: DroppedFile[] = [];
  for (const entry of entries) await collect(entry, '', found);
  return found;
}

export function chosenFiles(list: FileList): DroppedFile[] {
  return [...list].map((file) => ({ path: file.webkitRelativePath || file.name, file }));
}

async function collect(entry: FileSystemEntry, folder: string, found: DroppedFile[]): Promise<void> {
  if (found.length >= mostFiles || entry.name.startsWith('.')) return;
  const path = folder + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    found.push({ path, file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    // A reader hands out a hundred entries at a time, then none.
    const batch = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (batch.length === 0) return;
    for (const child of batch) await collect(child, `${path}/`, found);
  }
}
