import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { callRateLimit, startRateLimit } from '../support/rate-limit-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { startTollway, type Tollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import { root } from './source-files.ts'

/**
 * `node test/house/files-on-path.ts [--list]` prints how many files of production code run between the edit
 * of a manifest and the first decision by it, and between a call of Envoy and its answer. A file counts if
 * one of its functions runs in the operator or in the rate limit service meanwhile; what runs at the start
 * does not count.
 */
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

function print(what: string, files: ReadonlySet<string>): void {
  process.stdout.write(`| ${what} | ${files.size} |\n`)
  if (list) for (const path of [...files].sort()) process.stdout.write(`  ${path}\n`)
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
