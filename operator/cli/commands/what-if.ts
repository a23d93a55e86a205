import { type Command, exitCodes } from '@tollway/chassis/command-line/command.ts'
import { aFile, optionalText } from '@tollway/chassis/command-line/option.ts'
import { parseWithSource, requireOption } from '@tollway/chassis/command-line/parse-options.ts'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { deadlines } from '../../api/deadlines.ts'
import { formatDescriptorEntries } from '../../api/entries.ts'
import { describeCaveats, formatBounds } from '../../api/replay-bounds.ts'
import type { WhatIfAnswer } from '../../api/shapes.ts'
import { formatProblem } from '../../kinds/kind-adapter.ts'
import { maxWhatIfBytes } from '../../ratelimit-queries/pod-sessions.ts'
import { parseYamlDocument } from '../../yaml.ts'
import { callApi } from '../call-api.ts'
import { type OperatorAddress, operatorSource } from '../find-operator.ts'
import { readInput } from '../read-input.ts'
import { render, renderTable } from '../render.ts'
import type { SourceOf } from '../run-program.ts'
import { outputOption } from '../shared-options.ts'

const own = {
  file: optionalText({
    short: 'f',
    placeholder: 'FILE',
    help: 'the proposed RateLimitConfig, in YAML or JSON',
    completion: aFile,
  }),
  output: outputOption(),
}

export const createWhatIf = (source: SourceOf<OperatorAddress>): Command => ({
  name: 'whatif',
  summary: 'show the calls of the last minutes that an edited RateLimitConfig would have rejected',
  options: { ...own, ...source.options },
  help: {
    usage: ['-f FILE'],
    description: `\
Replays the calls that the rate limit processes have recorded, with the active configuration and with the
RateLimitConfig in FILE. It changes nothing. The answer has the number of recorded calls, the time of the
first one, and the bounds of rejected hits that are not exact. In a cluster it requires the right to get
ratelimitconfigs/counters of tollway.dev in the namespace of the resource.`,
    exitCodes: '0 done, 1 a pod did not answer, 2 the file is invalid, or the operator rejected the call.',
    examples: [
      'tollway whatif -f checkout.yaml',
      'tollway whatif -f checkout.yaml -o json --operator http://localhost:8000 --token-file token',
    ],
  },
  async run(args, output) {
    const { values, sourceValues } = parseWithSource(args, own, source.options)
    const format = values.output
    const resource = readResource(requireOption('--file', values.file))
    const operator = await source.open(sourceValues, output)
    const answer = await callApi<WhatIfAnswer>(operator, '/whatif', resource, deadlines.whatIf)
    output.print(format === 'table' ? describe(answer) : render(answer, format))
    // Operators of earlier versions send no warnings.
    for (const { field, message } of answer.warnings ?? [])
      output.printError(`warning: ${escapeControls(formatProblem({ path: field, message }))}\n`)
    const { missing } = answer.coverage
    for (const pod of missing)
      output.printError(`${escapeControls(pod)}: did not answer, has no recording, or has an older version\n`)
    return missing.length > 0 ? exitCodes.wrong : exitCodes.ok
  },
})

export const whatIfCommand = createWhatIf(operatorSource)

function readResource(path: string): unknown {
  const read = parseYamlDocument(readInput('--file', path, maxWhatIfBytes))
  if ('value' in read) return read.value
  const { message, line } = read
  throw new Error(`--file ${path}: ${line === undefined ? '' : `line ${line}: `}${message}`)
}

function describe({ rules, unlistedRules, keys, coverage }: WhatIfAnswer): string {
  const rows = rules.map(({ rule, now, proposed }) => [
    rule,
    `${now.allowed}`,
    describeRejected(now),
    `${proposed.allowed}`,
    describeRejected(proposed),
  ])
  const changed = keys.map(({ entries, hits, refusedNow, refusedProposed }) => [
    formatDescriptorEntries(entries),
    `${hits}`,
    `${refusedNow}`,
    `${refusedProposed}`,
  ])
  return [
    renderTable(['RULE', 'ALLOWED HITS', 'REJECTED', 'ALLOWED WITH IT', 'REJECTED WITH IT'], rows),
    ...(unlistedRules > 0 ? [`${unlistedRules} more rules are not listed.\n`] : []),
    ...(changed.length > 0 ? [renderTable(['KEY', 'HITS', 'REJECTED', 'REJECTED WITH IT'], changed)] : []),
    `${[describeCoverage(coverage), ...describeCaveats({ rules, coverage }, escapeControls)].join('\n')}\n`,
  ].join('\n')
}

function describeRejected(hits: WhatIfAnswer['rules'][number]['now']): string {
  const bounds = formatBounds(hits)
  return bounds === '' ? `${hits.refused}` : `${hits.refused} (${bounds})`
}

function describeCoverage({ fromMs, recordedCalls, calls, pods }: WhatIfAnswer['coverage']): string {
  if (fromMs === undefined) return 'No call of the domain is recorded.'
  const since = new Date(fromMs).toISOString()
  return `Based on ${recordedCalls} of ${calls} calls since ${since}, recorded by ${pods} pods.`
}
