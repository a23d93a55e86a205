import { type Command, exitCodes } from '@tollway/chassis/command-line/command.ts'
import { parseWithSource } from '@tollway/chassis/command-line/parse-options.ts'
import { version } from '@tollway/chassis/version.ts'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { render, renderTable } from '../render.ts'
import { createSource, type SourceOf } from '../run-program.ts'
import { outputOption, stateDirOption } from '../shared-options.ts'
import { readCurrentReport } from './status.ts'

export interface Installed {
  readonly operators: readonly InstalledPart[]
  readonly services: readonly InstalledPart[]
  /** The CustomResourceDefinitions; empty on one machine, which has none. */
  readonly definitions: readonly InstalledPart[]
  /** The reasons why some parts are not listed. */
  readonly problems: readonly string[]
}

export interface InstalledPart {
  readonly name: string
  /** The version; undefined if it is unknown, as for an image without a tag. */
  readonly version?: string
  readonly image?: string
}

const machine = createSource({ 'state-dir': stateDirOption }, async (values): Promise<Installed> => {
  const report = await readCurrentReport(values['state-dir'])
  if (report === undefined) return { operators: [], services: [], definitions: [], problems: [] }
  // The operator starts the processes of services from its own files.
  const running = report.version === undefined ? {} : { version: report.version }
  const services = report.replicas.map(({ name }) => ({ name, ...running }))
  return {
    operators: [{ name: `process ${report.pid}`, ...running }],
    services,
    definitions: [],
    problems: [],
  }
})

const own = { output: outputOption() }

export const createVersion = (source: SourceOf<Installed>): Command => ({
  name: 'version',
  summary: 'show the versions of this command and of the installation',
  options: { ...own, ...source.options },
  help: {
    usage: ['[-o table|yaml|json]'],
    description: `\
Shows the version of this command, and those of the operator and of the processes that run on this machine.
tollway --version prints the version of this command alone.`,
    exitCodes: '0 done, 1 when a version could not be read.',
    examples: ['tollway version', 'tollway version -o json'],
  },
  async run(args, output) {
    const { values, sourceValues } = parseWithSource(args, own, source.options)
    const { problems, ...installed } = await source.open(sourceValues, output)
    const report = { client: { version, node: process.version }, ...installed }
    output.print(values.output === 'table' ? describe(report) : render(report, values.output))
    for (const problem of problems) output.printError(`${escapeControls(problem)}\n`)
    return problems.length > 0 ? exitCodes.wrong : exitCodes.ok
  },
})

export const versionCommand = createVersion(machine)

function describe({
  operators,
  services,
  definitions,
}: Pick<Installed, 'operators' | 'services' | 'definitions'>): string {
  const toRows = (part: string, items: readonly InstalledPart[]) =>
    items.map(item => [part, item.name, item.version ?? 'unknown', item.image ?? ''])
  return renderTable(
    ['PART', 'NAME', 'VERSION', 'IMAGE'],
    [
      ['client', `node ${process.version}`, version, ''],
      ...toRows('operator', operators),
      ...toRows('service', services),
      ...toRows('definition', definitions),
    ],
  )
}
