import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { run, script } from './support.js';

const has = (shell: string) => spawnSync(shell, ['--version']).status === 0;

/** The candidates for a command line whose last word is at the cursor. */
async function candidates(...words: string[]): Promise<string[]> {
  const { out, err, code } = await run(['complete', '--', ...words]);
  expect([code, err]).toEqual([0, '']);
  return out
    .trim()
    .split('\n')
    .map((line) => line.split('\t')[0]!);
}

describe('candidates', () => {
  test('commands', async () => {
    const all = await candidates('');
    expect(all).toEqual(expect.arrayContaining(['embed', 'search', 'classify', 'index', 'inspect', 'doctor', 'help']));
    expect(all).toEqual(expect.arrayContaining(['quantize', 'prune', 'train', 'evaluate']));
    expect(all).not.toContain('complete'); // only scripts call it
    expect(await candidates('s')).toEqual(['search']);
    expect(await candidates('help', 'ins')).toEqual(['inspect']);
    expect(await candidates('help', 'train', '')).toEqual(['']); // does not suggest the program's commands
    expect(await candidates('--quiet', 'emb')).toEqual(['embed']);
  });

  test('options of the command, and of the whole program', async () => {
    const options = await candidates('classify', '--');
    expect(options).toEqual(expect.arrayContaining(['--model', '--top', '--json', '--help', '--quiet', '--no-color']));
    expect(options).not.toContain('--pooling');
    expect(await candidates('embed', 'texts.txt', '--dt')).toEqual(['--dtype']);
  });

  test('values', async () => {
    expect(await candidates('embed', '--dtype', '')).toEqual(['fp32', 'q8']);
    expect(await candidates('embed', '--dtype=q')).toEqual(['--dtype=q8']);
    expect(await candidates('embed', '--dtype', '=', 'f')).toEqual(['fp32']); // bash splits at =
    expect(await candidates('embed', '--dtype', '=')).toEqual(['fp32', 'q8']);
    expect(await candidates('completion', '')).toEqual(['bash', 'zsh', 'fish', 'powershell']);
    expect(await candidates('embed', '--dimensions', '')).toEqual(['']); // any number
  });

  test('files and folders are left to the shell', async () => {
    expect(await candidates('embed', '')).toEqual([':files']);
    expect(await candidates('embed', '--dtype', 'q8', 'a.txt', 'b')).toEqual([':files']);
    expect(await candidates('search', 'query', '')).toEqual([':files']);
    expect(await candidates('search', '')).toEqual(['']); // the query
    expect(await candidates('embed', '--model', '')).toEqual([':folders']);
    expect(await candidates('inspect', './')).toEqual([':folders']);
    expect(await candidates('index', 'words.txt', '')).toEqual(['']); // the command takes only one file
  });
});

describe.skipIf(!has('bash'))('in bash', () => {
  /** Completes as bash does: it sets COMP_WORDS and COMP_CWORD and calls the function that the script has registered. */
  function complete(...words: string[]): string[] {
    const quoted = [script, ...words].map((word) => `'${word}'`).join(' ');
    const program = `
      source <(${process.execPath} ${script} completion bash)
      [[ "$(complete -p heed)" == *"-o default"*"-F _heed heed" ]] || exit 1
      COMP_WORDS=(${quoted}); COMP_CWORD=${words.length}
      _heed
      printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout, stderr, status } = spawnSync('bash', ['-c', program], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, '']);
    return stdout.trim().split('\n');
  }

  test('commands, options and values', () => {
    expect(complete('cla')).toEqual(['classify']);
    expect(complete('embed', '--ty')).toEqual(['--type']);
    expect(complete('embed', '--pooling', 'm')).toEqual(['mean', 'max', 'mean_sqrt_len']);
    expect(complete('embed', '--dtype', '=', 'q')).toEqual(['q8']);
    expect(complete('embed', '')).toEqual(['']); // no candidates: bash completes file names
  });
});

// How each shell registers what completes the words of a program.
const registrations = {
  zsh: /^compdef _heed heed$/m,
  fish: /^complete .*-c heed .*-a /m,
  powershell: /^Register-ArgumentCompleter -Native -CommandName heed /m,
};

describe.each(Object.entries(registrations))('in %s', (shell, registration) => {
  test.skipIf(shell === 'powershell' || !has(shell))('the script has no errors of syntax', async () => {
    const { out } = await run(['completion', shell]);
    const { status, stderr } = spawnSync(shell, ['-n'], { input: out, encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, '']);
  });

  test('a script is printed that asks the program for candidates, and registers itself', async () => {
    const { out, code } = await run(['completion', shell]);
    expect(code).toBe(0);
    expect(out).toMatch(registration);
    expect(out).toMatch(/ complete '?--'? /);
  });
});

test('another shell is refused with the legal ones', async () => {
  const { err, code } = await run(['completion', 'tcsh']);
  expect(code).toBe(2);
  expect(err).toContain("'tcsh' is invalid for argument 'shell'. Allowed choices are bash, zsh, fish, powershell");
});
