/**
 * Candidates for completing a command line, derived from commander's commands and options, and the shell scripts that
 * request them on every Tab.
 */
import type { Argument, Command, Option } from 'commander';

export interface Candidate {
  value: string;
  description: string;
}

/** A placeholder for paths of files or folders, which the shell completes itself. */
export type Paths = ':files' | ':folders';

/** `words`: the words after the command's name, up to and including the one at the cursor, which may be empty. */
export function candidates(program: Command, words: readonly string[]): (Candidate | Paths)[] {
  // bash splits --name=value into three words.
  const list = words
    .map((word, i) => (word === '=' && i === words.length - 1 ? '' : word))
    .filter((word) => word !== '=');
  const current = list.pop() ?? '';
  const { command, option, operands } = contextOf(program, list);
  const assigned = /^(--[\w-]+=)(.*)$/s.exec(current);
  const named = assigned ? optionOf(program, command, assigned[1]!.slice(0, -1)) : option;
  const [prefix, start] = assigned ? [assigned[1]!, assigned[2]!] : ['', current];
  if (assigned || named) return named ? matching(valuesOf(program, named.flags, named.argChoices), start, prefix) : [];
  if (current.startsWith('-')) return matching(optionsOf(program, command), current);
  if (command.commands.length > 0) return matching(subcommandsOf(command), current);
  const args = command.registeredArguments;
  const argument: Argument | undefined = args[operands] ?? (args.at(-1)?.variadic ? args.at(-1) : undefined);
  if (!argument) return [];
  return matching(valuesOf(program, `<${argument.name()}>`, argument.argChoices), current);
}

/**
 * The subcommand before the cursor, the number of its arguments so far, and the option whose value is at the cursor.
 */
function contextOf(program: Command, words: readonly string[]) {
  let command = program;
  let operands = 0;
  let option: Option | undefined;
  for (const word of words) {
    if (option) {
      option = undefined;
    } else if (word.startsWith('-')) {
      const found = word.includes('=') ? undefined : optionOf(program, command, word);
      if (found?.required) option = found;
    } else if (command.commands.length > 0) {
      command = command.commands.find((each) => each.name() === word) ?? command;
    } else {
      operands++;
    }
  }
  return { command, operands, option };
}

const optionOf = (program: Command, command: Command, flag: string): Option | undefined =>
  [...command.options, ...program.options].find(({ short, long }) => short === flag || long === flag);

function optionsOf(program: Command, command: Command): Candidate[] {
  const help = program.createHelp();
  const own = help.visibleOptions(command);
  const all = command === program ? own : [...own, ...program.options.filter(({ long }) => long !== '--version')];
  return all.flatMap(({ long, description }) => (long ? [{ value: long, description }] : []));
}

export function subcommandsOf(program: Command): Candidate[] {
  const commands = program.createHelp().visibleCommands(program);
  return commands.map((command) => ({ value: command.name(), description: command.description() }));
}

/** The values of an option or argument: its choices, or paths if it is named as a file, a folder or a model. */
function valuesOf(program: Command, flags: string, choices: readonly string[] | undefined): (Candidate | Paths)[] {
  if (choices) return choices.map((value) => ({ value, description: '' }));
  const name = /[<[](\w+)/.exec(flags)?.[1];
  if (name === 'command') return subcommandsOf(program);
  if (name === 'file' || name === 'files') return [':files'];
  if (name === 'folder' || name === 'model') return [':folders'];
  return [];
}

function matching(list: (Candidate | Paths)[], start: string, prefix = ''): (Candidate | Paths)[] {
  return list
    .filter((each) => typeof each === 'string' || each.value.startsWith(start))
    .map((each) => (typeof each === 'string' ? each : { ...each, value: prefix + each.value }));
}

/**
 * Each script passes the words up to the cursor to `heed complete`, which prints one candidate per line, with a tab
 * before its description. No library is used: @bomb.sh/tab, which also reads commander's tree, disables the completion
 * of file names, and most of heed's arguments are files; omelette and tabtab do not support commander.
 */
export const SCRIPTS = {
  bash: `# bash completion for heed; add to ~/.bashrc: eval "$(heed completion bash)"
_heed() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    [[ $line == :* ]] || COMPREPLY+=("\${line%%$'\\t'*}")
  done < <("\${COMP_WORDS[0]}" complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
# Without candidates, bash completes file names.
complete -o bashdefault -o default -F _heed heed
`,
  zsh: `#compdef heed
# zsh completion for heed; add to ~/.zshrc after compinit: eval "$(heed completion zsh)"
_heed() {
  local line name tab=$'\\t'
  local -a found
  for line in "\${(@f)$("\${words[1]}" complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      '') ;;
      :files) [[ $PREFIX == --*=* ]] && compset -P '*='; _files ;;
      :folders) [[ $PREFIX == --*=* ]] && compset -P '*='; _files -/ ;;
      *)
        name=\${line%%$tab*}
        name=\${name//:/\\\\:}
        found+=("$name:\${line#*$tab}") ;;
    esac
  done
  (( $#found )) && _describe heed found
}
compdef _heed heed
`,
  fish: `# fish completion for heed; write to ~/.config/fish/completions/heed.fish
function _heed
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (heed complete -- $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path "$current"
            case ':folders'
                __fish_complete_directories "$current" ''
            case '*'
                echo $line
        end
    end
end
complete -c heed -f -a '(_heed)'
`,
  powershell: `# PowerShell completion for heed; add to $PROFILE: heed completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName heed -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 | Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | ForEach-Object { "$_" })
    # An empty last argument is lost by Windows PowerShell, unless it is quoted once more.
    $current = if ($wordToComplete) { $wordToComplete } elseif ($PSVersionTable.PSVersion -lt [version]'7.3') { '""' } else { '' }
    heed complete '--' @words $current 2>$null | ForEach-Object {
        $value, $description = $_ -split "\`t", 2
        if ($value -like ':*') { return }
        if (-not $description) { $description = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $description)
    }
}
`,
} as const;
