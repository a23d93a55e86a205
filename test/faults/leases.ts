import { setTimeout as pause } from 'node:timers/promises'
import { fromBinary } from '@bufbuild/protobuf'
import { RateLimitResponseSchema } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import {
  RateLimitAlgorithm,
  RateLimitCounting,
  RateLimitUnit,
} from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { startBackendProxy } from '../support/backend-proxy.ts'
import {
  encodeDomain,
  encodeResponse,
  type LimitDomainMessage,
  startLimitFeed,
} from '../support/limit-feed.ts'
import { losingNothing, startRedis } from '../support/redis-server.ts'
import { type ProxiedRedis, redisBackend } from './backends.ts'
import type { CaseOptions, FaultCase, FaultReport } from './fault-case.ts'
import { type Fleet, openFleet } from './fleet.ts'
import { okAnswer, overAnswer, readAnswer } from './load/answer.ts'
import { countFlatOut, encodeCall } from './load/calls.ts'
import { type CallRecord, type FaultLoadOptions, type LoadRecord, withFaultLoad } from './load/fault-load.ts'
import { domain } from './setups.ts'

const title =
  'processes with leases are killed, paused and cut off, and Redis with an append-only file is killed'

/** Processes with leases of hot keys are killed and paused, cut off from Redis, and Redis is killed. */
export const leasesCase: FaultCase = {
  name: 'leases',
  title,
  needs: ['redis-server'],
  run: runLimits,
}

export const leasesOfWindowsCase: FaultCase = {
  name: 'leases-windows',
  title: `${title}, while windows follow each other and buckets refill`,
  needs: ['redis-server'],
  run: runWindows,
}

type Descriptors = NonNullable<LimitDomainMessage['descriptors']>
type LeasesFleet = Fleet<ProxiedRedis>

/** Longer than a lease lasts. */
const pausedMs = 1_500
const silentMs = 400
/** Leases that are unused are returned in this time. */
const returnedMs = 1_500
const processes = 3
/** Calls of one key follow each other, and are so many a second that each process takes leases of it. */
const leastCallsPerSecond = 2_000
const phasesPerSecond = 4
/** Longer than nearly all calls, so that their answers say in which window they were decided. */
const windowSeconds = 3

const leased = { counting: RateLimitCounting.LEASED }
const tokenBucket = { ...leased, algorithm: RateLimitAlgorithm.TOKEN_BUCKET }

async function openBackend(seed: number): Promise<ProxiedRedis> {
  const server = await startRedis(losingNothing)
  const proxy = await startBackendProxy({ targetPort: server.port, seed })
  const stop = async () => {
    await proxy.stop()
    await server.stop()
  }
  return { ...redisBackend(server, proxy.address), server, proxy, stop }
}

async function withFleet<Result>(
  seed: number,
  descriptors: Descriptors,
  use: (fleet: LeasesFleet) => Promise<Result>,
): Promise<Result> {
  const feed = await startLimitFeed()
  try {
    feed.send(encodeResponse('1', [encodeDomain({ name: domain, domain, descriptors })]))
    const settings = { BACKEND_DEADLINE: '250ms', ...feed.settings }
    const fleet = await openFleet({ openBackend, seed, processes, limit: 1, settings })
    try {
      return await use(fleet)
    } finally {
      await fleet.close()
    }
  } finally {
    await feed.stop()
  }
}

/** Calls the keys in turn during all faults. The first process does not survive. */
async function loadWithFaults(
  { backend, services }: LeasesFleet,
  keys: readonly string[],
  { connections, callsPerSecond, warmUpMs, read }: Plan,
) {
  const { proxy, server } = backend
  const [killed, paused] = services.map(({ program }) => program.process)
  const bodies = keys.map(key => encodeCall(key, 'one'))
  const keyOf = (call: number) => Math.floor((call * phasesPerSecond) / callsPerSecond) % keys.length
  const plan = {
    ports: services.map(({ grpcPort }) => grpcPort),
    connections: Math.max(processes, connections),
    callsPerSecond,
    bodyOf: (call: number) => bodies[keyOf(call)] as Uint8Array,
    ...(read && { read }),
  }
  const record = await withFaultLoad(plan, async load => {
    await pause(warmUpMs)
    killed?.kill('SIGKILL')
    await pause(warmUpMs)
    paused?.kill('SIGSTOP')
    await pause(pausedMs)
    paused?.kill('SIGCONT')
    await proxy.setFault({ kind: 'silence' })
    await pause(silentMs)
    await proxy.setFault()
    await pause(warmUpMs)
    await proxy.setFault({ kind: 'cut', share: 0.05 })
    await pause(silentMs)
    await proxy.setFault()
    await server.kill('SIGKILL')
    await pause(silentMs)
    await server.restart()
    await pause(warmUpMs)
    return load.stop()
  })
  let takes = 0
  for (const service of services.slice(1)) takes += (await service.stats())['ratelimit.leases.takes'] ?? 0
  const violations = takes > 0 ? [] : ['no process has taken a lease']
  const note = `${takes} takes for ${record.sent} calls`
  return { record, keyOf: ({ call }: CallRecord) => keys[keyOf(call)], violations, note }
}

interface Plan
  extends Pick<CaseOptions, 'connections' | 'callsPerSecond' | 'warmUpMs'>,
    Pick<FaultLoadOptions, 'read'> {}

/** The limits are reached, because nothing leaves a window of a year or a bucket with a token a year. */
async function runLimits(options: CaseOptions): Promise<FaultReport> {
  const callsPerSecond = Math.max(leastCallsPerSecond, options.callsPerSecond)
  // About as many calls as a run makes before its last fault.
  const limit = 2 * options.callsPerSecond
  const window = { ...leased, unit: RateLimitUnit.YEAR, requestsPerUnit: limit }
  const bucket = { ...tokenBucket, unit: RateLimitUnit.YEAR, requestsPerUnit: 1, burst: limit }
  const descriptors = [
    { key: 'window', rateLimit: window },
    { key: 'bucket', rateLimit: bucket },
    { key: 'limits', limits: [window, { ...bucket, burst: 2 * limit }] },
  ]
  const keys = descriptors.map(({ key }) => key)
  return withFleet(options.seed, descriptors, async fleet => {
    const { record, keyOf, violations, note } = await loadWithFaults(fleet, keys, {
      ...options,
      callsPerSecond,
    })
    const ports = fleet.services.slice(1).map(({ grpcPort }) => grpcPort)
    const counts: string[] = []
    for (const key of keys) {
      const ofKey = record.calls.filter(each => keyOf(each) === key)
      const ok = ofKey.filter(({ outcome }) => outcome === okAnswer).length
      const over = ofKey.filter(({ outcome }) => outcome === overAnswer).length
      const rest = await exhaust(ports, key, limit)
      const count = ok + rest.ok
      // What failed may have been counted.
      const failed = ofKey.length - ok - over + rest.failed
      counts.push(`${key} ${count} and ${failed} failed`)
      if (count > limit) violations.push(`${key}: ${count} calls were admitted of ${limit}`)
      // Leases are at most a sixteenth of what is left; few of them are lost.
      if (count + failed < limit / 2) violations.push(`${key}: only ${count} calls were admitted of ${limit}`)
    }
    return { goals: [], violations, notes: [`admitted of ${limit}: ${counts.join(', ')}; ${note}`] }
  })
}

/** Calls until nothing is admitted any more, also after unused leases have returned. */
async function exhaust(ports: readonly number[], key: string, limit: number) {
  const all = { ok: 0, failed: 0 }
  for (let isAdmitted = true; isAdmitted; ) {
    const { ok, failed } = await countFlatOut(ports, ports.length, limit + 100, encodeCall(key, 'one'))
    all.ok += ok
    all.failed += failed
    isAdmitted = ok > 0 || failed > 0
    if (isAdmitted) await pause(returnedMs)
  }
  return all
}

/** The limits as parts of the calls that a key gets in a second, so that each window is exhausted. */
async function runWindows(options: CaseOptions): Promise<FaultReport> {
  const callsPerSecond = Math.max(leastCallsPerSecond, options.callsPerSecond)
  const warmUpMs = Math.max(1_000, options.warmUpMs)
  const part = callsPerSecond / 10
  const second = { ...leased, unit: RateLimitUnit.SECOND, requestsPerUnit: part }
  const seconds = { ...second, requestsPerUnit: 4 * part, unitMultiplier: windowSeconds }
  const minute = { ...leased, unit: RateLimitUnit.MINUTE, requestsPerUnit: 6 * part }
  const bucket = { ...tokenBucket, unit: RateLimitUnit.SECOND, requestsPerUnit: part / 2, burst: 2 * part }
  const both = [
    { ...seconds, requestsPerUnit: 3 * part },
    { ...bucket, requestsPerUnit: part },
  ]
  const descriptors = [
    ...Object.entries({ second, seconds, minute, bucket }).map(([key, rateLimit]) => ({ key, rateLimit })),
    { key: 'both', limits: both },
  ]
  const keys = descriptors.map(({ key }) => key)
  return withFleet(options.seed, descriptors, async fleet => {
    const plan = { ...options, callsPerSecond, warmUpMs, read: readWithReset }
    const { record, keyOf, violations, note } = await loadWithFaults(fleet, keys, plan)
    const notes = [note]
    const check = (key: string, most: readonly Most[]) => {
      const calls = admittedCalls(record).filter(({ of }) => keyOf(of) === key)
      const shown = most.map(({ count, of, what }) => {
        const found = count(calls)
        if (found.most > of) violations.push(`${key}: ${found.most} calls of ${of} were admitted in ${what}`)
        // The run may be in two minutes.
        if (found.most < of / 4) violations.push(`${key}: only ${found.most} of ${of} calls in ${what}`)
        return `${found.most} of ${of} in ${what}${found.note}`
      })
      notes.push(`${key}: at most ${shown.join(' and ')}`)
    }
    check('second', [inWindows(second.requestsPerUnit, 1, wholeIn)])
    check('seconds', [inWindows(seconds.requestsPerUnit, windowSeconds, endOfWindow)])
    check('minute', [inWindows(minute.requestsPerUnit, 60, endOfWindow)])
    check('bucket', [ofBucket(bucket)])
    check('both', [
      inWindows(3 * part, windowSeconds, wholeIn),
      ofBucket({ ...bucket, requestsPerUnit: part }),
    ])
    return { goals: [], violations, notes }
  })
}

/** Returns the decision, and the seconds until the window ends. */
function readWithReset(message: Buffer): string {
  const { statuses } = fromBinary(RateLimitResponseSchema, message)
  return `${readAnswer(message)} ${statuses[0]?.durationUntilReset?.seconds ?? 0}`
}

/** An admitted call, which was decided at a time between two others, in Unix time. */
interface Admitted {
  readonly of: CallRecord
  readonly fromSeconds: number
  readonly untilSeconds: number
  readonly resetSeconds: number
}

function admittedCalls({ calls }: LoadRecord): readonly Admitted[] {
  const toSeconds = (ms: number) => (performance.timeOrigin + ms) / 1_000
  return calls.flatMap(of => {
    const [decision, reset] = of.outcome.split(' ')
    if (decision !== okAnswer) return []
    const [fromSeconds, untilSeconds] = [toSeconds(of.dueMs), toSeconds(of.endedMs)]
    return [{ of, fromSeconds, untilSeconds, resetSeconds: Number(reset) }]
  })
}

/** The largest number of calls that may be admitted. */
interface Most {
  readonly of: number
  readonly what: string
  readonly count: (calls: readonly Admitted[]) => { readonly most: number; readonly note: string }
}

type FindWindow = (call: Admitted, lengthSeconds: number) => number | undefined

function inWindows(limit: number, lengthSeconds: number, find: FindWindow): Most {
  return {
    of: limit,
    what: `a window of ${lengthSeconds} s`,
    count(calls) {
      const byWindow = Map.groupBy(calls, call => find(call, lengthSeconds))
      const unknown = byWindow.get(undefined)?.length ?? 0
      byWindow.delete(undefined)
      const most = Math.max(0, ...[...byWindow.values()].map(({ length }) => length))
      return { most, note: ` (${byWindow.size} windows; that of ${unknown} calls is unknown)` }
    },
  }
}

/** Returns the window by what the answer says; undefined if the call took so long that two windows are possible. */
function endOfWindow({ fromSeconds, untilSeconds, resetSeconds }: Admitted, lengthSeconds: number) {
  const first = Math.floor((fromSeconds + resetSeconds - 1) / lengthSeconds) + 1
  const last = Math.floor((untilSeconds + resetSeconds) / lengthSeconds)
  return first === last ? first : undefined
}

/** Returns the window if the call began and ended in it. */
function wholeIn({ fromSeconds, untilSeconds }: Admitted, lengthSeconds: number) {
  const window = Math.floor(fromSeconds / lengthSeconds)
  return window === Math.floor(untilSeconds / lengthSeconds) ? window : undefined
}

/**
 * Between two times a bucket admits what it has when it is full, and what it is refilled with. Returns how much of a
 * full bucket was used at most by calls that were decided between two times, whichever these are.
 */
function ofBucket({ requestsPerUnit, burst }: { requestsPerUnit: number; burst: number }): Most {
  return {
    // Half a token may be rounded up at both times.
    of: burst + 1,
    what: 'a bucket beside its refill',
    count(calls) {
      const byEnd = calls.toSorted((one, other) => one.untilSeconds - other.untilSeconds)
      const starts = [...new Set(calls.map(({ fromSeconds }) => Math.floor(fromSeconds * 50) / 50))]
      let most = 0
      for (const start of starts) {
        let count = 0
        for (const { fromSeconds, untilSeconds } of byEnd) {
          if (fromSeconds < start) continue
          count += 1
          most = Math.max(most, count - (untilSeconds - start) * requestsPerUnit)
        }
      }
      return { most: Math.floor(most), note: '' }
    },
  }
}
