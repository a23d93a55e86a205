import { readFileSync, writeFileSync } from 'node:fs'
import { missingReference } from '../differential/start-reference.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import type { BenchCase, CaseResult, Extent, GoalRow } from './bench-case.ts'
import { startReferenceServer } from './contestants.ts'
import { createDecisionLoads } from './decision-load.ts'
import type { Goal } from './goals.ts'
import { type SourceKind, type SourceProcess, startSource } from './limit-source-process.ts'
import { type LimitDomain, questionsOf } from './limit-sources.ts'
import { driveAtRate } from './load/at-rate.ts'
import { driveFlatOut } from './load/flat-out.ts'
import { type LatencyFigures, latencyFigures, median } from './percentiles.ts'
import { rssMiB } from './process-usage.ts'
import { type MeasuredServer, startOurs } from './servers.ts'

const descriptors = 100_000
const callsPerSecond = 2_000
const connections = 100
/** Each of these reloads changes every rule. */
const reloads = 3
/** Each of these edits changes one rule of one domain. */
const edits = 10
const editPauseMs = 150
/** V8 releases the pages of an ended thread after 8 seconds. */
const settleMs = 10_000
const probeIntervalMs = 2
const reloadDeadlineMs = 60_000
const generous = 1_000_000_000

/** Reload 100,000 descriptors repeatedly during decisions. */
export const reloadCases: readonly BenchCase[] = [
  reloadCase('reload-feed', 'feed', 1),
  reloadCase('reload-feed-domains', 'feed', 100),
  reloadCase('reload-files', 'files', 1),
  reloadCase('reload-files-domains', 'files', 100),
]

function reloadCase(name: string, kind: SourceKind, domains: number): BenchCase {
  const title = `reload of ${descriptors.toLocaleString('en')} descriptors in ${domains} domains, ${kind}`
  // The reference compiles every rule at each reload, which takes minutes.
  return { name, title, long: true, needs: ['redis-server'], run: extent => run(kind, domains, extent) }
}

/** The figures of one contestant. Times are in milliseconds. */
interface ReloadFigures {
  readonly restMiB: number
  readonly peakMiB: number
  readonly quiet: LatencyFigures
  readonly reloading: LatencyFigures
  /** The time of each reload until it is active. */
  readonly reloadMs: readonly number[]
  readonly editing: LatencyFigures
  /** The time of each edit of one rule until it is active. */
  readonly editMs: readonly number[]
}

async function run(kind: SourceKind, domains: number, extent: Extent): Promise<CaseResult> {
  const redis = await startRedis()
  const measureOne = async (start: Start): Promise<ReloadFigures> => {
    const source = await startSource(kind)
    try {
      return await measureContestant(start, source, domains, extent, redis)
    } finally {
      source.end()
    }
  }
  try {
    const ours = await measureOne(startService)
    const other = missingReference() ? undefined : await measureOne(startReference)
    const measurements = { ours: [ours.reloading], ...(other && { reference: [other.reloading] }) }
    return { rows: rowsOf(ours, other), measurements, notes: [] }
  } finally {
    await redis.stop()
  }
}

function rowsOf(ours: ReloadFigures, other: ReloadFigures | undefined): readonly GoalRow[] {
  const row = (what: string, unit: string, of: (one: ReloadFigures) => number, goal?: Goal): GoalRow => ({
    ...{ what, unit, figures: [of(ours)], goal },
    compared: other === undefined ? '' : `${of(ours).toFixed(2)} / ${of(other).toFixed(2)} ${unit}`,
  })
  const atMost = (quiet: number, leastMs: number) => ({ atMost: Math.max(2 * quiet, leastMs) })
  return [
    row('RSS at rest', 'MiB', one => one.restMiB, { atMost: 300 }),
    row('RSS at the peak of a reload', 'MiB', one => one.peakMiB, { atMost: 500 }),
    row('a reload is in force', 'ms', one => median(one.reloadMs)),
    row('p50 without a reload', 'ms', one => one.quiet.p50Ms),
    row('p99 without a reload', 'ms', one => one.quiet.p99Ms),
    row('p99.9 without a reload', 'ms', one => one.quiet.p999Ms),
    row('p50 while reloading', 'ms', one => one.reloading.p50Ms),
    row('p99 while reloading', 'ms', one => one.reloading.p99Ms),
    row('p99.9 while reloading', 'ms', one => one.reloading.p999Ms, atMost(ours.quiet.p999Ms, 10)),
    row('an edit of one rule is in force', 'ms', one => median(one.editMs)),
    row('p99 while editing', 'ms', one => one.editing.p99Ms),
    row('p99.9 while editing', 'ms', one => one.editing.p999Ms),
  ]
}

type Start = (source: SourceProcess, redis: RedisServer) => Promise<MeasuredServer>

async function measureContestant(
  start: Start,
  source: SourceProcess,
  count: number,
  { roundMs, firstWarmUpMs }: Extent,
  redis: RedisServer,
): Promise<ReloadFigures> {
  const versions = versionsOf(count)
  const [first = [], ...others] = versions
  for (const domains of versions) await source.prepare(domains)
  source.apply(0)
  const server = await start(source, redis)
  try {
    const questions = questionsOf(first, 10_000)
    const shape = { protocol: 'grpc', questions, connections, streams: 10, over: false } as const
    const loads = createDecisionLoads(shape)
    await driveFlatOut(loads.inOrder(server), { calls: questions.length })
    const drive = async (durationMs: number) =>
      (await driveAtRate(loads.uniform(server), callsPerSecond, durationMs)).latenciesMs
    await drive(firstWarmUpMs)
    await pause(settleMs)
    const restMiB = rssMiB(server.pid)
    const quiet = latencyFigures(await drive(2 * roundMs))
    resetPeak(server.pid)
    const change = (version: number) =>
      timeChange(server, versions[version]?.[0], () => source.apply(version))
    const reloading = await whileDriving(drive, roundMs, reloads, done => change(done + 1))
    const peakMiB = peakOf(server.pid)
    const editing = await whileDriving(drive, roundMs, others.length - reloads, async done => {
      await pause(editPauseMs)
      return await change(reloads + done + 1)
    })
    return {
      ...{ restMiB, peakMiB, quiet },
      ...{ reloading: reloading.figures, reloadMs: reloading.tookMs },
      ...{ editing: editing.figures, editMs: editing.tookMs },
    }
  } finally {
    await server.end()
  }
}

/** Returns the first content, then those of the reloads, then those of the edits. */
function versionsOf(count: number): readonly (readonly LimitDomain[])[] {
  let domains: readonly LimitDomain[] = Array.from({ length: count }, (_, index) => ({
    ...{ name: `d${index}`, rules: descriptors / count - 1, limit: generous, version: 1 },
  }))
  const all = [domains]
  for (let version = 2; version <= 1 + reloads; version++) {
    domains = domains.map(one => ({ ...one, limit: generous + version, version }))
    all.push(domains)
  }
  for (let edit = 1; edit <= edits; edit++) {
    domains = domains.map((one, index) => (index === 0 ? { ...one, version: one.version + 1 } : one))
    all.push(domains)
  }
  return all
}

/** Drives rounds of load until the work was done this often. The figures are those of all calls together. */
async function whileDriving(
  drive: (durationMs: number) => Promise<Float64Array>,
  roundMs: number,
  times: number,
  work: (done: number) => Promise<number>,
) {
  const tookMs: number[] = []
  const latenciesMs: number[] = []
  const working = (async () => {
    while (tookMs.length < times) tookMs.push(await work(tookMs.length))
  })()
  let isDone = false
  const done = working.finally(() => {
    isDone = true
  })
  done.catch(() => {})
  while (!isDone) latenciesMs.push(...(await drive(roundMs)))
  await done
  return { figures: latencyFigures(Float64Array.from(latenciesMs)), tookMs }
}

/** Returns the time from the change until a decision of the domain uses it. */
async function timeChange(
  { httpPort }: MeasuredServer,
  domain: LimitDomain | undefined,
  apply: () => void,
): Promise<number> {
  const { name, version } = domain ?? { name: '', version: 0 }
  const body = JSON.stringify({
    domain: name,
    descriptors: [{ entries: [{ key: 'probe', value: 'x' }], hitsAddend: '0' }],
  })
  const began = performance.now()
  apply()
  for (;;) {
    const answer = await fetch(`http://127.0.0.1:${httpPort}/json`, { method: 'POST', body })
    if ((await answer.text()).includes(`"requestsPerUnit":${version},`)) return performance.now() - began
    if (performance.now() - began > reloadDeadlineMs) throw new Error(`${name} is not at ${version}`)
    await pause(probeIntervalMs)
  }
}

const pause = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

function resetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5')
}

function peakOf(pid: number): number {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}

const startService: Start = ({ settings }, { port }) => startOurs({ rules: '', redisPort: port, settings })
const startReference: Start = ({ settings }, { port }) =>
  startReferenceServer({ rules: '', redisPort: port }, settings)
