import { resolve } from 'node:path'
import type { RateLimitDomain, RateLimitRule } from '../ir.ts'
import { complaintsOf } from './complaints.ts'
import { defaultStateDir } from './state-dir.ts'
import type { StatusReport } from './status-report.ts'

export interface WelcomeFacts {
  readonly report: StatusReport
  readonly stateDir: string
  readonly logFile: string
  /** `memory`, `Redis`. */
  readonly counters: string
  readonly inForce: readonly RateLimitDomain[]
}

/** The one screen that `tollway run` prints when everything takes calls. */
export function renderWelcome({ report, stateDir, logFile, counters, inForce }: WelcomeFacts): string {
  const { addresses, replicas } = report
  const processes = `${replicas.length} rate limit ${replicas.length === 1 ? 'process' : 'processes'}`
  const domains = `${inForce.length} ${inForce.length === 1 ? 'domain' : 'domains'}`
  const each = (port: string) => replicas.flatMap(replica => replica.addresses[port] ?? []).join(', ')
  const metrics = each('metrics')
  const options = stateDir === resolve(defaultStateDir) ? '' : ` --state-dir ${quoted(stateDir)}`
  const request = firstRequest(inForce)
  const wrong = complaintsOf(report).filter(({ passing }) => !passing).length
  const lines = [
    '',
    `Tollway enforces ${domains} of ${report.folder} with ${processes}, counters in ${counters}.`,
    ...(wrong === 0
      ? []
      : [`${wrong} ${wrong === 1 ? 'thing is' : 'things are'} wrong: tollway status${options}`]),
    '',
    `  rate limit gRPC   ${addresses['grpc']}   for Envoy: examples/envoy/envoy.yaml`,
    `  rate limit HTTP   ${addresses['http']}/json, /healthcheck`,
    `  debug             ${each('debug')}`,
    ...(metrics === '' ? [] : [`  metrics           ${metrics}`]),
    `  feed (xDS)        ${addresses['feed']}`,
    `  operator          ${addresses['operator']}/status`,
    '',
    `  state             ${stateDir}`,
    `  logs              ${logFile}`,
    '',
    ...(request === undefined ? [] : commandsToTry(addresses['http'] ?? '', request, options)),
    'Edit a manifest, and the next call is decided by it. Ctrl-C ends every process.',
  ]
  return `${lines.join('\n')}\n`
}

interface ExampleRequest {
  readonly domain: string
  readonly key: string
  readonly value: string
}

/** A request that a rule of the first level limits. */
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
    '  # which rule matches, and why',
    `  npx tollway try --domain ${quoted(domain)} --entries ${quoted(entries)}${options}`,
    '',
    '  # how far each resource got, and what runs',
    `  npx tollway status${options}`,
    '',
  ]
}

/** A word of a shell's command line, in quotes where it needs them. */
function quoted(word: string): string {
  return /^[\w./:=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
