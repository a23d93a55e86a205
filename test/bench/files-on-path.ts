import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { root } from '../house/source-files.ts'
import { callRateLimit, startRateLimit } from '../support/rate-limit-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { startTollway, type Tollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

/**
 * `node test/bench/files-on-path.ts [--list]` prints how many files of production code a reader passes from
 * the edit of a manifest to the first decision by it, and from a call of Envoy to its answer. It counts the
 * files of which a function runs in the operator or in the rate limit service meanwhile; what runs at the
 * start does not count. A file is on the path unless one of the rows of `beside` names it: these files run,
 * too, and a reader who follows the content of the manifest does not pass them.
 */
const beside: readonly (readonly [what: string, paths: readonly string[]])[] = [
  ['libraries of which the path needs only the contract', ['services/chassis/', 'services/grpc/']],
  [
    'the status of the edit: acknowledgements, conditions, log, files of the state',
    [
      'operator/status/',
      'operator/kinds/derive-statuses.ts',
      'operator/xds/acknowledgements.ts',
      'operator/xds/client-state.ts',
      'operator/environments/host/terminal/',
      'operator/environments/host/environment.ts',
      'operator/environments/host/memory.ts',
      'operator/environments/host/start.ts',
      'operator/environments/host/status-file.ts',
      'operator/environments/host/write-atomically.ts',
    ],
  ],
  [
    'other kinds, services and processes, which check whether the edit concerns them',
    [
      'operator/infrastructure/',
      'operator/kinds/animation-stream-route/',
      'operator/kinds/merchant/',
      'operator/kinds/registry.ts',
      'operator/workloads/',
      'operator/environments/host/host-services.ts',
      'operator/environments/host/merchants.ts',
      'operator/environments/host/processes/',
      'operator/environments/host/secrets.ts',
    ],
  ],
  [
    'health and reports of the processes',
    [
      'operator/pods/',
      'operator/ratelimit-queries/',
      'services/ratelimit/counters/backend-health.ts',
      'services/ratelimit/health.ts',
      'services/ratelimit/telemetry/',
      'services/ratelimit/service.ts',
      'services/ratelimit/open-sink.ts',
      'services/ratelimit/startup.ts',
      'services/ratelimit/stats/',
    ],
  ],
]

const preload = join(import.meta.dirname, 'coverage-on-signal.ts')
const list = process.argv.includes('--list')
const ends: (() => Promise<void>)[] = []
const t = {
  after(end: () => Promise<void>) {
    ends.push(end)
  },
}

interface Covered {
  readonly program: Tollway['program']
  readonly folder: string
}

/** Resolves with the files whose functions ran since the last call. */
async function takeCoverage({ program, folder }: Covered): Promise<ReadonlySet<string>> {
  const before = readdirSync(folder).length
  const taken = () => program.output().split('coverage taken').length
  const wanted = taken() + 1
  process.kill(program.pid, 'SIGUSR2')
  await waitFor('the coverage', () => taken() >= wanted && readdirSync(folder).length > before)
  const newest = readdirSync(folder)
    .sort((a, b) => Number(a.split('-').at(-1)?.split('.')[0]) - Number(b.split('-').at(-1)?.split('.')[0]))
    .at(-1)
  const { result } = JSON.parse(readFileSync(join(folder, newest ?? ''), 'utf8')) as {
    result: { url: string; functions: { functionName: string; ranges: { count: number }[] }[] }[]
  }
  const ran = result.filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0))
  const paths = ran
    .filter(({ url }) => url.startsWith('file:'))
    .map(({ url }) => relative(root, fileURLToPath(url)))
  return new Set(paths.filter(path => /^(operator|services|crds)\//.test(path)))
}

const manifest = (limit: number) => `apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata: {name: shop, namespace: default}
spec:
  domain: shop
  descriptors: [{key: user, rateLimit: {unit: day, requestsPerUnit: ${limit}}}]
`

const besideOf = (path: string) =>
  beside.find(([, paths]) => paths.some(place => path.startsWith(place)))?.[0] ?? ''

function print(what: string, files: ReadonlySet<string>): void {
  const groups = Map.groupBy([...files].sort(), besideOf)
  const rows: readonly (readonly [string, string])[] = [
    ['', what],
    ...beside.map(([name]) => [name, `— beside it: ${name}`] as const),
  ]
  for (const [name, title] of rows) {
    const found = groups.get(name) ?? []
    process.stdout.write(`| ${title} | ${found.length} |\n`)
    if (list) for (const path of found) process.stdout.write(`  ${path}\n`)
  }
}

try {
  const folders = { operator: temporaryFolder('coverage'), service: temporaryFolder('coverage') }
  process.env['NODE_V8_COVERAGE'] = folders.operator
  process.env['NODE_OPTIONS'] = `--import ${preload}`
  const tollway = await startTollway(t, { 'shop.yaml': manifest(5) })
  delete process.env['NODE_V8_COVERAGE']
  delete process.env['NODE_OPTIONS']
  const service = await startRateLimit(t, {
    NODE_V8_COVERAGE: folders.service,
    NODE_OPTIONS: `--import ${preload}`,
    BACKEND_TYPE: 'memory',
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${tollway.feedPort}`,
    CONFIG_GRPC_XDS_NODE_ID: 'measured',
  })
  await service.serves()
  const { shouldRateLimit } = callRateLimit(t, service.grpcPort)
  const decide = () =>
    shouldRateLimit({ domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'a' }] }] })
  const limitOf = async () => (await decide()).statuses[0]?.currentLimit?.requestsPerUnit
  await waitFor('the first limit', async () => (await limitOf()) === 5)
  const operator = { program: tollway.program, folder: folders.operator }
  const pod = { program: service.program, folder: folders.service }
  await takeCoverage(operator)
  await takeCoverage(pod)
  await decide()
  const call = await takeCoverage(pod)
  tollway.write('shop.yaml', manifest(7))
  await waitFor('the new limit', async () => (await limitOf()) === 7)
  const path = new Set([...(await takeCoverage(operator)), ...(await takeCoverage(pod))])
  process.stdout.write('| Path | Files |\n| --- | --- |\n')
  print('from an edited manifest to a decision', path)
  print('from a call of Envoy to its answer', call)
} finally {
  for (const end of ends.reverse()) await end()
}
