import {
  checkConfigFolder,
  configCheckHelp,
  formatCheckedFolder,
  parseConfigCheckArgs,
} from '@tollway/ratelimit/config-check.ts'
import { type Command, exitCodes, UsageError } from '../command.ts'
import { aFolder } from '../completion/completion.ts'
import { text, toggle } from '../options/option.ts'

export const configCheck: Command = {
  name: 'config-check',
  summary: 'report every problem in the YAML files of a rate limit service',
  help: configCheckHelp('tollway config-check'),
  options: {
    'config-dir': text({
      placeholder: 'DIR',
      help: 'the folder that the service reads',
      completion: aFolder,
    }),
    'merge-domain-configs': toggle({ help: 'allow several files to share a domain' }),
  },
  async run(args, output) {
    const { folder, merge } = parse(args)
    const checked = checkConfigFolder(folder, merge)
    output.print(formatCheckedFolder(checked))
    return checked.problems.length === 0 ? exitCodes.ok : exitCodes.wrong
  },
}

function parse(args: readonly string[]): ReturnType<typeof parseConfigCheckArgs> {
  try {
    return parseConfigCheckArgs(args)
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}
