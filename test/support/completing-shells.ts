import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'

export interface CompletingShells {
  /** Returns the replies of the function that bash calls for the word at the end of the line. */
  replyOfBash(...words: string[]): readonly string[]
  /** Returns the line after the key for completion was pressed in a terminal. */
  lineOfZsh(line: string): string
  /** Returns the candidates for the end of the line. */
  candidatesOfFish(line: string): readonly string[]
}

export interface CompletedProgram {
  readonly name: string
  /** The folder in which the shells run. */
  readonly folder: string
  readonly env: NodeJS.ProcessEnv
  /** The commands with which each shell learns the completion. */
  readonly setup: Readonly<Record<'bash' | 'zsh' | 'fish', string>>
  /** The function that bash calls. */
  readonly bashFunction: string
}

/** Real shells that complete the lines of a program. */
export function createCompletingShells(program: CompletedProgram): CompletingShells {
  const { name, folder, env, setup, bashFunction } = program

  function run(shell: string, args: readonly string[]): string {
    const options = { cwd: folder, env, encoding: 'utf8', timeout: 60_000 } as const
    const { status, stdout, stderr } = spawnSync(shell, args, options)
    assert.equal(status, 0, stdout + stderr)
    return stdout
  }

  return {
    replyOfBash(...words) {
      // bash splits words at = and :.
      const split = words.flatMap(word =>
        word.split(/([=:])/).filter((part, index) => part !== '' || index === 0),
      )
      const quoted = split.map(word => `'${word}'`).join(' ')
      const script = `${setup.bash}; COMP_WORDS=(${name} ${quoted}); COMP_CWORD=${split.length}
        COMP_LINE='${[name, ...words].join(' ')}'; COMP_POINT=\${#COMP_LINE}; COMP_TYPE=9
        ${bashFunction}; printf '%s\\n' "\${COMPREPLY[@]}"`
      return run('bash', ['--norc', '-c', script]).trimEnd().split('\n')
    },
    lineOfZsh(line) {
      const text = run('zsh', ['-f', '-c', zshSession, 'session', line, setup.zsh])
      return /<<(.*)>>/s.exec(text)?.[1] ?? text
    },
    candidatesOfFish(line) {
      const script = `${setup.fish}; complete -C ${JSON.stringify(line)}`
      return run('fish', ['--no-config', '-c', script])
        .trimEnd()
        .split('\n')
        .map(found => found.replace(/\t.*/, ''))
    },
  }
}

const zshSession = `
zmodload zsh/zpty
zpty terminal zsh -f -i
until_printed() {
  local out=
  while [[ $out != *$1* ]] && zpty -r terminal chunk; do out+=$chunk; done
  print -r -- "$out"
}
zpty -w terminal "PS1=; autoload -U compinit; compinit -u -D; $2; stty cols 200"
zpty -w terminal 'show() { print -r -- "<<$BUFFER>>" }; zle -N show; bindkey "^X" show; print rea""dy'
until_printed ready > /dev/null
zpty -w -n terminal "$1"$'\\t\\x18'
until_printed '>>'
zpty -d terminal
`
