import { type Command, exitCodes, UsageError } from '@tollway/chassis/command-line/command.ts'
import { parseOptions } from '@tollway/chassis/command-line/parse-options.ts'
import { completionScripts, shells } from '../completion/scripts.ts'

export const completion: Command = {
  name: 'completion',
  summary: 'print the completion script of a shell',
  options: {},
  operands: { kind: 'values', values: shells },
  help: {
    usage: ['bash|zsh|fish'],
    description: `\
Prints a script that completes commands, options, their values, files, and the domains and rules of the
resources. bash needs no package for it. zsh needs compinit.

kubectl completes its plugin by the program kubectl_complete-tollway, which must be in the PATH.`,
    exitCodes: '0 done, 2 for another shell.',
    examples: [
      'tollway completion bash > /etc/bash_completion.d/tollway',
      'source <(tollway completion zsh)',
      'tollway completion fish > ~/.config/fish/completions/tollway.fish',
    ],
  },
  async run(args, output) {
    const [name, ...more] = parseOptions(args, {}, true).positionals
    if (name === undefined) throw new UsageError(`missing argument: ${shells.join(', ')}`)
    if (more.length > 0) throw new UsageError(`unexpected argument ${JSON.stringify(more[0])}`)
    const shell = shells.find(each => each === name)
    if (shell === undefined)
      throw new UsageError(`unknown shell ${JSON.stringify(name)}: must be one of ${shells.join(', ')}`)
    output.print(completionScripts[shell])
    return exitCodes.ok
  },
}
