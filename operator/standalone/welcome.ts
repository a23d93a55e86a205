import type { RateLimitDomain, RateLimitRule } from '../ir.ts'
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
  const debug = replicas.map(replica => replica.addresses['debug'] ?? '')
  const request = firstRequest(inForce)
  const lines = [
    '',
    `Tollway enforces ${domains} of ${report.folder} with ${processes}, counters in ${counters}.`,
    '',
    `  rate limit gRPC   ${addresses['grpc']}   for Envoy: examples/envoy/envoy.yaml`,
    `  rate limit HTTP   ${addresses['http']}/json, /healthcheck`,
    `  debug             ${debug.join(', ')}`,
    `  feed (xDS)        ${addresses['feed']}`,
    `  operator          ${addresses['operator']}/status`,
    '',
    `  state             ${stateDir}`,
    `  logs              ${logFile}`,
    '',
    ...(request === undefined ? [] : commandsToTry(addresses['http'] ?? '', request)),
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
  const isPlain = ({ rateLimit, key }: RateLimitRule) => rateLimit?.unlimited === false && !key.includes('*')
  for (const { domain, descriptors } of inForce) {
    const rule = descriptors.find(isPlain)
    if (rule !== undefined) return { domain, key: rule.key, value: rule.value.replaceAll('*', '') || 'alice' }
  }
  return undefined
}

function commandsToTry(http: string, { domain, key, value }: ExampleRequest): string[] {
  const body = JSON.stringify({ domain, descriptors: [{ entries: [{ key, value }] }] })
  return [
    'Try, in another terminal:',
    '',
    '  # OK at first, and 429 once the limit is used up',
    `  curl -i ${http}/json -d '${body}'`,
    '',
    '  # which rule matches, and why',
    `  npx tollway try --domain ${domain} --entries ${key}=${value}`,
    '',
    '  # how far each resource got, and what runs',
    '  npx tollway status',
    '',
  ]
}
