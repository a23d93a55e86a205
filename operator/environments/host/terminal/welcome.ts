import { resolve } from 'node:path'
import type { RateLimitDomain, RateLimitRule } from '@tollway/ratelimit/rules/model.ts'
import type { Replica } from '../../../infrastructure/provider.ts'
import type { ServiceName } from '../../../model.ts'
import type { StatusReport } from '../../../status/status-report.ts'
import { defaultStateDir } from '../state-dir.ts'
import { listProblems } from './problem-log.ts'

interface WelcomeFacts {
  readonly report: StatusReport
  readonly stateDir: string
  readonly logFile: string
  /** Where the counters are kept: `memory` or `Redis`. */
  readonly counters: string
  readonly inForce: readonly RateLimitDomain[]
  /** Where streams are kept, and the number of routes. Not shown if no broker runs. */
  readonly streams: { readonly log: string; readonly routes: number }
}

/** Returns the text that `tollway run` prints when all processes accept calls. */
export function renderWelcome(facts: WelcomeFacts): string {
  const { report, stateDir, logFile, inForce } = facts
  const { addresses } = report
  const options = stateDir === resolve(defaultStateDir) ? '' : ` --state-dir ${quoted(stateDir)}`
  const request = firstRequest(inForce)
  const wrong = listProblems(report).filter(({ passing }) => !passing).length
  const lines = [
    '',
    ...whatRuns(facts),
    ...(wrong === 0
      ? []
      : [`${wrong} ${wrong === 1 ? 'thing is' : 'things are'} wrong: tollway status${options}`]),
    '',
    ...addressLines(report),
    '',
    `  state             ${stateDir}`,
    `  logs              ${logFile}`,
    '',
    ...(request === undefined ? [] : commandsToTry(addresses['http'] ?? '', request, options)),
    'Edit a manifest, and the next call is decided by it. Ctrl-C ends every process.',
  ]
  return `${lines.join('\n')}\n`
}

function whatRuns({ report, counters, inForce, streams }: WelcomeFacts): readonly string[] {
  const domains = count(inForce.length, 'domain', 'domains')
  const limiters = findProcesses(report, 'ratelimit').length
  const processes = count(limiters, 'rate limit process', 'rate limit processes')
  const limits = `Tollway enforces ${domains} of ${report.folder} with ${processes}, counters in ${counters}.`
  const running = findProcesses(report, 'broker').length
  if (running === 0) return [limits]
  const brokers = `${count(running, 'broker', 'brokers')} of animation streams`
  return [limits, `${brokers} with ${count(streams.routes, 'route', 'routes')}, streams in ${streams.log}.`]
}

function addressLines(report: StatusReport): readonly string[] {
  const { addresses } = report
  const each = (service: ServiceName, port: string) =>
    findProcesses(report, service)
      .flatMap(replica => replica.addresses[port] ?? [])
      .join(', ')
  const metrics = each('ratelimit', 'metrics')
  const brokerPages = each('broker', 'debug')
  return [
    `  rate limit gRPC   ${addresses['grpc']}   for Envoy: examples/envoy/envoy.yaml`,
    `  rate limit HTTP   ${addresses['http']}/json, /healthcheck`,
    `  debug             ${each('ratelimit', 'debug')}`,
    ...(metrics === '' ? [] : [`  metrics           ${metrics}`]),
    ...(brokerPages === ''
      ? []
      : [
          `  animation streams ${addresses['broker']}   gRPC: Push and Pull`,
          `  their pages       ${brokerPages}`,
        ]),
    ...(addresses['payments'] === undefined
      ? []
      : [`  payments          ${addresses['payments']}`, `  payment page      ${addresses['payPage']}`]),
    `  feed (xDS)        ${addresses['feed']}`,
    `  operator          ${addresses['operator']}/status`,
    `  console           ${addresses['operator']}/console`,
  ]
}

/**
 * Returns the processes of a service. On one machine, a process is named after its service, with a number.
 */
function findProcesses({ replicas }: StatusReport, service: ServiceName): readonly Replica[] {
  return replicas.filter(({ name }) => name.startsWith(`${service}-`))
}

const count = (number: number, one: string, many: string) => `${number} ${number === 1 ? one : many}`

interface ExampleRequest {
  readonly domain: string
  readonly key: string
  readonly value: string
}

/** Returns a request that a rule of the first level limits; undefined if there is no such rule. */
function firstRequest(inForce: readonly RateLimitDomain[]): ExampleRequest | undefined {
  const isPlain = ({ rateLimit, key, shadowMode }: RateLimitRule) =>
    rateLimit?.unlimited === false && !shadowMode && !key.includes('*')
  for (const { domain, descriptors } of inForce) {
    const rule = descriptors.find(isPlain)
    if (rule !== undefined) return { domain, key: rule.key, value: rule.value.replaceAll('*', '') || 'alice' }
  }
  return undefined
}

function commandsToTry(
  http: string,
  { domain, key, value }: ExampleRequest,
  options: string,
): readonly string[] {
  const body = JSON.stringify({ domain, descriptors: [{ entries: [{ key, value }] }] })
  const entries = `${key}=${value.replaceAll(',', '\\,')}`
  return [
    'Try, in another terminal:',
    '',
    '  # OK at first, and 429 once the limit is used up',
    `  curl -i ${http}/json -d ${quoted(body)}`,
    '',
    '  # the rule that matches, and why',
    `  npx tollway try --domain ${quoted(domain)} --entries ${quoted(entries)}${options}`,
    '',
    '  # the status of each resource, and the processes',
    `  npx tollway status${options}`,
    '',
  ]
}

/** Returns a word for a shell's command line, quoted if necessary. */
function quoted(word: string): string {
  return /^[\w./:=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
