import { type Command, exitCodes, UsageError } from '@tollway/chassis/command-line/command.ts'
import { parseOptions } from '@tollway/chassis/command-line/parse-options.ts'

export const shells = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof shells)[number]

/**
 * The scripts pass the words of the command line to `tollway __complete`, and read what `formatSuggestions`
 * returns. bash splits words at `=` and `:`; its script joins them, and replies with the part after the last
 * of these.
 */
export const completionScripts: Readonly<Record<Shell, string>> = {
  bash: `# bash completion for tollway: source <(tollway completion bash)
_tollway() {
  local word before= last=-1 i line directive=4 words=()
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    if ((last >= 0)) && [[ $word == [=:]* || $before == *[=:] ]]; then
      words[last]+=$word
    else
      last=$((last + 1))
      words[last]=$word
    fi
    before=$word
  done
  local end=\${words[last]##*[=:]}
  local start=\${words[last]%"$end"}
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :[0-9]*) directive=\${line#:} ;;
      *) line=\${line%%$'\\t'*} && COMPREPLY+=("$(printf %q "\${line#"$start"}")") ;;
    esac
  done < <("\${COMP_WORDS[0]}" __complete "\${words[@]}" 2>/dev/null)
  [[ $directive == 4 ]] && return
  compopt -o filenames 2>/dev/null
  local kind=-f
  [[ $directive == 16 ]] && kind=-d
  while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen $kind -- "$end")
}
complete -F _tollway tollway
`,
  zsh: `#compdef tollway
# zsh completion for tollway: source <(tollway completion zsh)
_tollway() {
  local line directive=4 text description
  local -a candidates
  for line in "\${(@f)$("\${words[1]}" __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    if [[ $line == :<-> ]]; then
      directive=\${line#:}
    elif [[ -n $line ]]; then
      text=\${line%%$'\\t'*}
      description=\${line#$text}
      candidates+=("\${text//:/\\\\:}:\${description#$'\\t'}")
    fi
  done
  (( $#candidates )) && _describe -t values tollway candidates
  [[ $directive == 4 ]] && return
  compset -P '--*='
  if [[ $directive == 16 ]]; then _files -/; else _files; fi
}
if [[ $funcstack[1] == _tollway ]]; then _tollway "$@"; else compdef _tollway tollway; fi
`,
  fish: `# fish completion for tollway: tollway completion fish | source
function __tollway_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l start (string match -r -- '^--[^=]+=' "$current")
    for line in ($before[1] __complete $before[2..] "$current" 2>/dev/null)
        switch $line
            case ':4'
                return
            case ':0'
                for path in (__fish_complete_path (string replace -- "$start" '' "$current"))
                    echo "$start$path"
                end
            case ':16'
                for path in (__fish_complete_directories (string replace -- "$start" '' "$current"))
                    echo "$start$path"
                end
            case '*'
                echo $line
        end
    end
end
complete -c tollway -f -a '(__tollway_complete)'
`,
}

export const completionCommand: Command = {
  name: 'completion',
  summary: 'print the completion script of a shell',
  options: {},
  operands: { kind: 'values', values: shells },
  help: {
    usage: ['bash|zsh|fish'],
    description: `\
Prints a script that completes commands, options, their values, files, and the domains and rules of the
resources. It requires no package in bash, and compinit in zsh.

kubectl completes kubectl tollway if the program kubectl_complete-tollway is in the PATH.`,
    exitCodes: '0 the script is printed, 2 the shell is not supported.',
    examples: [
      'tollway completion bash > /etc/bash_completion.d/tollway',
      'source <(tollway completion zsh)',
      'tollway completion fish > ~/.config/fish/completions/tollway.fish',
    ],
  },
  async run(args, output) {
    const [name, ...more] = parseOptions(args, {}, true).positionals
    if (name === undefined)
      throw new UsageError(`missing argument SHELL: must be one of ${shells.join(', ')}`)
    if (more.length > 0) throw new UsageError(`unexpected argument ${JSON.stringify(more[0])}`)
    const shell = shells.find(each => each === name)
    if (shell === undefined)
      throw new UsageError(`unknown shell ${JSON.stringify(name)}: must be one of ${shells.join(', ')}`)
    output.print(completionScripts[shell])
    return exitCodes.ok
  },
}
