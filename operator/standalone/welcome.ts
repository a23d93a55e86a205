/** The one screen that `tollway run` prints when everything takes calls. */
export interface WelcomeFacts {
  readonly folder: string
  readonly stateDir: string
  readonly logFile: string
  readonly replicas: number
  readonly counters: string
  readonly grpcPort: number
  readonly httpPort: number
  readonly debugAddresses: readonly string[]
  readonly feedAddress: string
  readonly operatorAddress: string
  readonly resources: number
  /** Of one resource that is in force, for commands that can be tried as they stand. */
  readonly example: { readonly domain: string; readonly key: string; readonly value: string } | undefined
}

export function renderWelcome(facts: WelcomeFacts): string {
  const { example } = facts
  const processes = `${facts.replicas} rate limit ${facts.replicas === 1 ? 'process' : 'processes'}`
  const lines = [
    '',
    `Tollway enforces ${facts.resources} resources of ${facts.folder} with ${processes}, counters in ${facts.counters}.`,
    '',
    `  rate limit gRPC   127.0.0.1:${facts.grpcPort}   for Envoy: examples/envoy/envoy.yaml`,
    `  rate limit HTTP   http://127.0.0.1:${facts.httpPort}/json, /healthcheck`,
    `  debug             ${facts.debugAddresses.join(', ')}`,
    `  feed (xDS)        ${facts.feedAddress}`,
    `  operator          ${facts.operatorAddress}/status`,
    '',
    `  state             ${facts.stateDir}`,
    `  logs              ${facts.logFile}`,
    '',
  ]
  if (example !== undefined) lines.push(...commandsToTry(facts.httpPort, example))
  lines.push('Edit a manifest, and the next call is decided by it. Ctrl-C ends every process.', '')
  return `${lines.join('\n')}\n`
}

function commandsToTry(
  httpPort: number,
  { domain, key, value }: { readonly domain: string; readonly key: string; readonly value: string },
): string[] {
  const body = JSON.stringify({ domain, descriptors: [{ entries: [{ key, value }] }] })
  return [
    'Try, in another terminal:',
    '',
    '  # OK at first, and 429 once the limit is used up',
    `  curl -i http://127.0.0.1:${httpPort}/json -d '${body}'`,
    '',
    '  # which rule matches, and why',
    `  npx tollway try --domain ${domain} --entries ${key}=${value}`,
    '',
    '  # how far each resource got, and what runs',
    '  npx tollway status',
    '',
  ]
}
