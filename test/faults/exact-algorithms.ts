import { RateLimitAlgorithm, RateLimitUnit } from '@tollway/proto/ratelimit/config/ratelimit/v3/rls_conf'
import { encodeDomain, encodeResponse, startLimitFeed } from '../support/limit-feed.ts'
import { losingNothing, type RedisServer, startRedis } from '../support/redis-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { redisBackend } from './backends.ts'
import type { CaseOptions, FaultCase, FaultReport } from './fault-case.ts'
import { openFleet } from './fleet.ts'
import { countFlatOut, encodeCall, type OutcomeCounts } from './load/calls.ts'
import { domain } from './setups.ts'

/** Redis with an append-only file is killed while many processes admit calls of one key by each algorithm. */
export const exactAlgorithmsCase: FaultCase = {
  name: 'exact-algorithms',
  title: 'Redis with an append-only file is killed, many processes admit one key by each algorithm',
  needs: ['redis-server'],
  run,
}

/** Windows of a year, and token buckets that get one token a year, so that no hit leaves a limit in a run. */
const unit = RateLimitUnit.YEAR
const yearSeconds = 31_536_000

function policies(limit: number) {
  const fixed = { unit, requestsPerUnit: limit }
  const sliding = { unit, requestsPerUnit: limit, algorithm: RateLimitAlgorithm.SLIDING_WINDOW }
  const bucket = { unit, requestsPerUnit: 1, burst: limit, algorithm: RateLimitAlgorithm.TOKEN_BUCKET }
  const holds = { maxConcurrent: limit, leaseSeconds: 86_400, algorithm: RateLimitAlgorithm.CONCURRENCY }
  return { fixed, sliding, bucket, holds }
}

const kinds = ['fixed', 'sliding', 'bucket', 'holds', 'limits'] as const
type Kind = (typeof kinds)[number]

function domainWith(limit: number) {
  const { fixed, sliding, bucket, holds } = policies(limit)
  const larger = policies(2 * limit)
  const limits = [fixed, larger.sliding, larger.bucket, larger.holds]
  const descriptors = [
    { key: 'fixed', rateLimit: fixed },
    { key: 'sliding', rateLimit: sliding },
    { key: 'bucket', rateLimit: bucket },
    { key: 'holds', rateLimit: holds },
    { key: 'limits', limits },
  ]
  return encodeDomain({ name: domain, domain, descriptors })
}

async function run({ seed, exactness }: CaseOptions): Promise<FaultReport> {
  const { processes, connections, limit } = exactness
  const server = await startRedis(losingNothing)
  const feed = await startLimitFeed()
  try {
    feed.send(encodeResponse('1', [domainWith(limit)]))
    const fleet = await openFleet({
      openBackend: async () => redisBackend(server, `127.0.0.1:${server.port}`),
      seed,
      processes,
      limit,
      settings: { BACKEND_DEADLINE: '30s', KVSTORE_TIMEOUT: '30s', ...feed.settings },
    })
    try {
      const ports = fleet.services.map(({ grpcPort }) => grpcPort)
      const each = Math.ceil(connections / kinds.length)
      const load = (kind: Kind, calls: number) => countFlatOut(ports, each, calls, encodeCall(kind, 'one'))
      const tallies = await killMeanwhile(server, limit, load)
      const states = new Map<Kind, readonly number[]>()
      for (const kind of kinds) states.set(kind, await readCounts(server, kind))
      return createReport(limit, tallies, states, exactness)
    } finally {
      await fleet.close()
    }
  } finally {
    await feed.stop()
    await server.stop()
  }
}

/** The beginning of the key with which the service finds out whether it can run scripts. */
const probe = '{tollway-probe}'

type Load = (kind: Kind, calls: number) => Promise<OutcomeCounts>

/** Calls fail within the deadline of the backend. */
const failureDeadlineMs = 60_000

/** Loads all keys until each limit is reached; kills and restarts Redis after a quarter of the calls. */
async function killMeanwhile(
  server: RedisServer,
  limit: number,
  load: Load,
): Promise<ReadonlyMap<Kind, readonly OutcomeCounts[]>> {
  const tallies = new Map(kinds.map(kind => [kind, [] as OutcomeCounts[]] as const))
  const loadOnce = async (kind: Kind, calls: number) => {
    const tally = await load(kind, calls)
    tallies.get(kind)?.push(tally)
    return tally
  }
  await Promise.all(kinds.map(kind => loadOnce(kind, Math.ceil(limit / 4))))
  let isDown = true
  const loadWhileDown = async (kind: Kind) => {
    while (isDown) await loadOnce(kind, Math.ceil(limit / 10))
  }
  const loads = Promise.all(kinds.map(loadWhileDown))
  await server.kill('SIGKILL')
  const hasFailed = (kind: Kind) => (tallies.get(kind) ?? []).some(({ failed }) => failed > 0)
  await waitFor('a failed call of each kind', () => kinds.every(hasFailed), failureDeadlineMs)
  await server.restart()
  isDown = false
  await loads
  await Promise.all(
    kinds.map(kind =>
      waitFor(
        'calls after the fault without errors',
        async () => (await loadOnce(kind, limit + 100)).failed === 0,
        60_000,
      ),
    ),
  )
  return tallies
}

/** Returns the hits in each state of the kind: one for each limit that the kind has. */
async function readCounts(server: RedisServer, kind: Kind): Promise<readonly number[]> {
  const isOwn = (key: string) =>
    kind === 'limits' ? key.startsWith('{') && !key.startsWith(probe) : key.includes(`_${kind}_`)
  const keys = (await server.command('KEYS', '*')).split('\n').filter(isOwn)
  return Promise.all(
    keys.map(async key => {
      const type = await server.command('TYPE', key)
      if (type === 'string') return Number(await server.command('GET', key))
      if (type === 'zset') return -1 - Number(await server.command('ZSCORE', key, 'held'))
      const [current = '', debt = '', rate = ''] = (
        await server.command('HMGET', key, 'current', 'debt', 'rate')
      ).split('\n')
      return current === '' ? Math.ceil(Number(debt) / (Number(rate) * yearSeconds)) : Number(current)
    }),
  )
}

/** Each admitted call is counted once, in every limit or in none; a failed call may be counted. */
function createReport(
  limit: number,
  tallies: ReadonlyMap<Kind, readonly OutcomeCounts[]>,
  states: ReadonlyMap<Kind, readonly number[]>,
  { processes, connections }: CaseOptions['exactness'],
): FaultReport {
  const violations: string[] = []
  const notes = [`${processes} processes, ${connections} connections`]
  for (const kind of kinds) {
    const sum = (outcome: 'ok' | 'over' | 'failed') =>
      (tallies.get(kind) ?? []).reduce((total, tally) => total + tally[outcome], 0)
    const [admitted, failed] = [sum('ok'), sum('failed')]
    const counts = states.get(kind) ?? []
    notes.push(`${kind}: ${admitted} admitted of ${limit}, ${failed} failed, counted ${counts.join(' ')}`)
    if (failed === 0) violations.push(`${kind}: no call failed while Redis was down`)
    if (admitted > limit || admitted < limit - failed) {
      violations.push(`${kind}: ${admitted} calls were admitted of ${limit}, and ${failed} failed`)
    }
    const expected = kind === 'limits' ? 4 : 1
    if (counts.length !== expected) violations.push(`${kind}: ${counts.length} states instead of ${expected}`)
    // A fixed window by itself counts rejected calls as well.
    if (kind !== 'fixed' && counts.some(count => count !== limit)) {
      violations.push(`${kind}: the states count ${counts.join(' ')} hits instead of ${limit}`)
    }
  }
  return { goals: [], violations, notes }
}
