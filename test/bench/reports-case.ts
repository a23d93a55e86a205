import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { startReportingOperator } from '../support/reporting-operator.ts'
import { waitFor } from '../support/wait-for.ts'
import type { BenchCase, CaseResult, Extent, GoalRow } from './bench-case.ts'
import { type Comparison, compareRounds, cpuRatio, rateRatio } from './compare.ts'
import { domain, generous, nestedQuestions, nestedRules, userQuestions, userRule } from './configurations.ts'
import { createDecisionLoads } from './decision-load.ts'
import { inTurn } from './in-turn.ts'
import { driveFlatOut } from './load/flat-out.ts'
import type { Question } from './load/requests.ts'
import { type Measurement, measure } from './measure.ts'
import { type MeasuredServer, startOurs } from './servers.ts'

/** The cost of reports to the operator, for the process that reports. */
interface ReportsCase {
  readonly name: string
  readonly title: string
  readonly backend: 'memory' | 'redis'
  readonly rules: string
  readonly questions: readonly Question[]
}

/** The servers by their names, and the settings in which they differ. */
const servers = {
  'no reports': { DECISION_REPORTS: 'false' },
  'no recording': { DECISION_RECORDING_BYTES: '0' },
  'not watched': {},
  watched: {},
}
type Name = keyof typeof servers
const names = Object.keys(servers) as Name[]

const p99: Comparison = { what: 'p99', figure: 'p99Ms', unit: 'ms', of: 'ratio' }

/** The goals of each server, compared with the server without reports. */
const comparisons: Readonly<Record<Exclude<Name, 'no reports'>, readonly Comparison[]>> = {
  'no recording': [cpuRatio, rateRatio, p99],
  'not watched': [
    { ...cpuRatio, goal: { atMost: 1.05 } },
    { ...rateRatio, goal: { atLeast: 0.95 } },
    { ...p99, goal: { atMost: 1.1 } },
  ],
  watched: [cpuRatio, rateRatio, { ...p99, goal: { atMost: 1.2 } }],
}

function reportsCase(shape: ReportsCase): BenchCase {
  const { name, title, backend } = shape
  const needs = backend === 'redis' ? ['redis-server'] : []
  return { name, title, needs, run: extent => run(shape, extent) }
}

async function run(shape: ReportsCase, extent: Extent): Promise<CaseResult> {
  const ends: (() => Promise<unknown>)[] = []
  const cleanup = { after: (end: () => Promise<void>) => void ends.push(end) }
  try {
    const redis = shape.backend === 'redis' ? await startRedis() : undefined
    if (redis !== undefined) ends.push(() => redis.stop())
    // A watch concerns every process of an operator.
    const [quiet, watching] = [await startOperator(cleanup, shape), await startOperator(cleanup, shape)]
    const started: MeasuredServer[] = []
    for (const name of names) {
      const { port } = name === 'watched' ? watching : quiet
      const server = await startServer(shape, name, port, redis?.port ?? 0)
      ends.push(server.end)
      started.push(server)
    }
    ends.push(await watch(watching))
    return await measureServers(shape, extent, redis === undefined ? [] : [redis], started)
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

type Operator = Awaited<ReturnType<typeof startReportingOperator>>

function startOperator(cleanup: Parameters<typeof startReportingOperator>[0], { rules }: ReportsCase) {
  return startReportingOperator(cleanup, rules)
}

function startServer(
  { backend }: ReportsCase,
  name: Name,
  feedPort: number,
  redisPort: number,
): Promise<MeasuredServer> {
  const settings = {
    BACKEND_TYPE: backend,
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${feedPort}`,
    CONFIG_GRPC_XDS_NODE_ID: name.replaceAll(' ', '-'),
    ...servers[name],
  }
  return startOurs({ name, rules: userRule(generous), redisPort, settings })
}

/** Reads the series and the top keys of the domain. Resolves with a function that ends both. */
async function watch({ sessions }: Operator): Promise<() => Promise<void>> {
  await waitFor('the session', async () => (await sessions.domains()).items.length > 0)
  const ending = new AbortController()
  const series = (async () => {
    for await (const _ of sessions.series({ domain }, ending.signal));
  })()
  await sessions.top({ domain, rule: '', by: 'hits' })
  return async () => {
    ending.abort()
    await series
  }
}

async function measureServers(
  { questions }: ReportsCase,
  { rounds, roundMs, warmUpMs, firstWarmUpMs }: Extent,
  redis: readonly RedisServer[],
  started: readonly MeasuredServer[],
): Promise<CaseResult> {
  const loads = createDecisionLoads({
    protocol: 'grpc',
    questions,
    connections: 1,
    streams: 100,
    over: false,
  })
  const drive = (server: MeasuredServer, durationMs: number) =>
    driveFlatOut(loads.uniform(server), { durationMs })
  for (const server of started) await drive(server, firstWarmUpMs)
  const measurements = await inTurn<MeasuredServer, Measurement>(started, rounds, async server => {
    await drive(server, warmUpMs)
    return measure(server, redis, () => drive(server, roundMs))
  })
  const byName = Object.fromEntries(names.map((name, place) => [name, measurements[place] ?? []]))
  const rows = Object.entries(comparisons).flatMap(([name, compared]): readonly GoalRow[] => {
    const named = compared.map(one => ({ ...one, what: `${name}: ${one.what}` }))
    return compareRounds(named, byName[name] ?? [], byName['no reports'] ?? [])
  })
  return { rows, measurements: byName, notes: [] }
}

const rules = 1_000
const keys = 10_000

export const reportsCases: readonly BenchCase[] = [
  {
    name: 'reports',
    title: 'reports to the operator, 10,000 uniform keys, counters in memory',
    backend: 'memory' as const,
    rules: userRule(generous),
    questions: userQuestions(keys),
  },
  {
    name: 'reports-redis',
    title: 'reports to the operator, 10,000 uniform keys, counters in Redis',
    backend: 'redis' as const,
    rules: userRule(generous),
    questions: userQuestions(keys),
  },
  {
    name: 'reports-rules',
    title: 'reports to the operator, 1,000 rules, counters in memory',
    backend: 'memory' as const,
    rules: nestedRules(rules),
    questions: nestedQuestions(rules, keys),
  },
].map(reportsCase)
