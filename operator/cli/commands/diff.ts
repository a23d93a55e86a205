import type { Command } from '@tollway/chassis/command-line/command.ts'
import { aFile, optionalText, toggle } from '@tollway/chassis/command-line/option.ts'
import { parseWithSource, requireOption } from '@tollway/chassis/command-line/parse-options.ts'
import { readStatusReport } from '../../environments/host/status-file.ts'
import { compareResources, type DiffTarget, describeDifferences } from '../compare-resources.ts'
import { openKinds, readFolder } from '../read-folder.ts'
import { render } from '../render.ts'
import { createSource, type SourceOf } from '../run-program.ts'
import { outputOption, stateDirOption } from '../shared-options.ts'

/** The exit codes, the same as those of `kubectl diff`. */
const diffExitCodes = { same: 0, different: 1, failed: 2 } as const

const own = {
  file: optionalText({
    short: 'f',
    placeholder: 'FILE',
    help: 'the file or folder of the manifests',
    completion: aFile,
  }),
  prune: toggle({
    help: 'count resources as deleted that are not in FILE, in the namespaces of FILE',
  }),
  output: outputOption(),
}

const machineTarget = createSource(
  { 'state-dir': stateDirOption },
  async ({ 'state-dir': stateDir }, output): Promise<DiffTarget> => {
    if (readStatusReport(stateDir) === undefined)
      throw new Error(
        `no operator has run with the state in ${stateDir}; start one with: tollway run -f FOLDER`,
      )
    const content = await readFolder(undefined, stateDir, output)
    return {
      content,
      completeSpec: async ({ spec }) => spec,
      withResources: async resources => ({ ...content, resources, kinds: openKinds(resources) }),
    }
  },
)

export const createDiff = (source: SourceOf<DiffTarget>): Command => ({
  name: 'diff',
  summary: 'show the changes that manifests would make to fields and rules',
  options: { ...own, ...source.options },
  help: {
    usage: ['-f FILE [--prune] [-o table|yaml|json]'],
    description: `\
Compares the manifests in FILE with the resources of the operator on this machine, and changes nothing. It
prints the resources that would be created, changed and deleted with their fields, the rules whose limits
would change, and new problems, such as a domain of another resource or a missing Secret. The compared fields
are those of spec, and the annotations of Tollway.`,
    exitCodes: '0 without a difference, 1 with a difference, 2 when the resources cannot be compared.',
    examples: ['tollway diff -f checkout.yaml', 'tollway diff -f limits --prune -o json'],
  },
  async run(args, output) {
    const { values, sourceValues } = parseWithSource(args, own, source.options)
    const folder = await readFolder(requireOption('--file', values.file), '', output)
    const target = await source.open(sourceValues, output)
    const differences = await compareResources(target, folder, values.prune)
    const { output: format } = values
    output.print(format === 'table' ? describeDifferences(differences) : render(differences, format))
    const { resources, rules, problems } = differences
    if (folder.problems.length > 0) return diffExitCodes.failed
    return resources.length + rules.length + problems.length > 0
      ? diffExitCodes.different
      : diffExitCodes.same
  },
})

export const diffCommand = createDiff(machineTarget)
