import { existsSync } from 'node:fs'
import {
  type Command,
  type CommandOutput,
  exitCodes,
  UsageError,
} from '@tollway/chassis/command-line/command.ts'
import { aFile, optionalText } from '@tollway/chassis/command-line/option.ts'
import { parseWithSource } from '@tollway/chassis/command-line/parse-options.ts'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { createSource, type SourceOf } from '../run-program.ts'
import { stateDirOption } from '../shared-options.ts'
import type { Bundle } from './bundle.ts'
import { NoTollwayError } from './collect-from-cluster.ts'
import { collectFromMachine } from './collect-from-machine.ts'

const own = {
  'output-file': optionalText({
    placeholder: 'FILE',
    help: 'the bundle to write (default: tollway-bundle-TIME.tar.gz in this folder)',
    completion: aFile,
  }),
}

const machineBundle = createSource({ 'state-dir': stateDirOption }, values =>
  collectFromMachine(values['state-dir']),
)

export const createCollect = (source: SourceOf<Bundle>): Command => ({
  name: 'collect',
  summary: 'write a support bundle without secrets',
  options: { ...own, ...source.options },
  help: {
    usage: ['[--output-file FILE]'],
    description: `\
Writes a .tar.gz file for a bug report: versions, resources with their status, the report of the
operator, and logs. Its manifest.json lists the files, the parts that are left out, and the reasons. The
bundle has at most 50 MiB before compression, with the newest lines of logs.

Secrets, tokens, passwords and card numbers are removed where they can be recognised. Read the bundle before
you send it: a secret that a program logged without its name cannot be recognised.`,
    exitCodes: '0 the bundle is written, 1 Tollway is not installed, 2 the bundle cannot be written.',
    examples: ['tollway collect', 'tollway collect --state-dir /var/lib/tollway --output-file bundle.tar.gz'],
  },
  async run(args, output) {
    const { values, sourceValues } = parseWithSource(args, own, source.options)
    const createdAt = new Date().toISOString()
    const file = values['output-file'] ?? `tollway-bundle-${createdAt.replace(/[:.]/g, '-')}.tar.gz`
    if (existsSync(file)) throw new UsageError(`--output-file ${file}: already exists`)
    try {
      const bundle = await source.open(sourceValues, output)
      await writeBundle(bundle, file, createdAt, output)
      return exitCodes.ok
    } catch (error) {
      if (!(error instanceof NoTollwayError)) throw error
      output.printError(`${error.message}\n`)
      return exitCodes.wrong
    }
  },
})

async function writeBundle(
  bundle: Bundle,
  file: string,
  createdAt: string,
  output: CommandOutput,
): Promise<void> {
  const { files, leftOut } = await bundle.write(file, createdAt)
  output.print(`wrote ${file}: ${files.length} files\n`)
  for (const { path, reason } of leftOut) output.print(`left out ${escapeControls(`${path}: ${reason}`)}\n`)
}

export const collectCommand = createCollect(machineBundle)
