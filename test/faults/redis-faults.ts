import { setTimeout as delay } from 'node:timers/promises'
import { seededRandom } from '../support/api-proxy.ts'
import { type BackendFault, randomFault } from '../support/backend-proxy.ts'
import { backendFault } from './backend-fault.ts'
import { openRedis, type ProxiedRedis } from './backends.ts'
import type { CaseOptions, FaultCase } from './fault-case.ts'

const lost = /the connection to Redis was lost(: .+)?/
const refused = /connect ECONNREFUSED 127\.0\.0\.1:\d+/
const reset = /(?:read|write|connect) ECONNRESET.*/
const stalled = /Redis owed replies and sent nothing for \d+ ms/
const notConnected = /there was no connection to Redis after 1000 ms/
const noReply = /malformed reply from Redis: .+/
const notRedis = /the server is not Redis: the reply to PING is not PONG/
const tooMany = /too many hits in flight: \d+ and \d+ more; the limit is \d+/
const loading = 'LOADING Redis is loading the dataset in memory'
const unavailable = [lost, refused, stalled, notConnected, tooMany]

const common = { needs: ['redis-server'], openBackend: openRedis }

interface ConnectionFault {
  readonly name: string
  readonly title: string
  readonly messages: readonly RegExp[]
  readonly fault: (options: CaseOptions) => BackendFault
}

/** Faults of the connection to Redis; its counters are kept. */
const connections: readonly ConnectionFault[] = [
  {
    name: 'refused',
    title: 'connections are refused',
    messages: unavailable,
    fault: () => ({ kind: 'refuse' }),
  },
  {
    name: 'black-hole',
    title: 'black hole: connections stay open and nothing arrives',
    messages: unavailable,
    fault: () => ({ kind: 'silence' }),
  },
  {
    name: 'hang-up',
    title: 'connections are accepted and closed at once',
    messages: [...unavailable, reset],
    fault: () => ({ kind: 'hang-up' }),
  },
  {
    name: 'latency',
    title: 'each reply takes 1 s more',
    messages: unavailable,
    fault: () => ({ kind: 'latency', ms: 1_000 }),
  },
  {
    name: 'loading',
    title: 'it answers LOADING',
    messages: [...unavailable, new RegExp(loading)],
    fault: () => ({ kind: 'answer', line: `-${loading}` }),
  },
  {
    name: 'cut',
    title: 'one reply in 20 is truncated, and the connection closed',
    messages: unavailable,
    fault: () => ({ kind: 'cut', share: 0.05 }),
  },
  {
    name: 'garbage',
    title: 'replies are replaced by garbage',
    messages: [...unavailable, noReply, notRedis],
    fault: () => ({ kind: 'garbage', share: 1 }),
  },
  {
    name: 'drip',
    title: 'replies arrive byte by byte, each byte delayed by a third of the deadline',
    messages: unavailable,
    fault: ({ deadlineMs }) => ({ kind: 'drip', bytes: 1, everyMs: Math.ceil(deadlineMs / 3) }),
  },
]

const connectionFaults: readonly FaultCase[] = connections.map(({ fault, ...way }) =>
  backendFault<ProxiedRedis>({
    ...common,
    ...way,
    inject: ({ proxy }, options) => proxy.setFault(fault(options)),
    remove: ({ proxy }) => proxy.setFault(),
  }),
)

/** Faults of Redis itself. */
const serverFaults: readonly FaultCase[] = [
  backendFault<ProxiedRedis>({
    ...common,
    name: 'stopped',
    title: 'Redis is stopped (SIGSTOP)',
    messages: unavailable,
    inject: ({ server }) => server.kill('SIGSTOP'),
    remove: ({ server }) => server.kill('SIGCONT'),
  }),
  backendFault<ProxiedRedis>({
    ...common,
    name: 'read-only',
    title: 'Redis has become a replica: READONLY',
    messages: [/READONLY You can't write against a read only replica\./],
    inject: ({ server }) => server.command('REPLICAOF', '127.0.0.1', '1'),
    remove: ({ server }) => server.command('REPLICAOF', 'NO', 'ONE'),
  }),
  backendFault<ProxiedRedis>({
    ...common,
    name: 'out-of-memory',
    title: 'Redis has no memory left: OOM',
    messages: [/OOM command not allowed when used memory > 'maxmemory'\./],
    inject: ({ server }) => server.command('CONFIG', 'SET', 'maxmemory', '1'),
    remove: ({ server }) => server.command('CONFIG', 'SET', 'maxmemory', '0'),
  }),
  backendFault<ProxiedRedis>({
    ...common,
    name: 'flushall',
    title: 'FLUSHALL',
    messages: [],
    losesCounters: true,
    duration: 'once',
    inject: ({ server }) => server.command('FLUSHALL'),
    remove: async () => {},
  }),
  backendFault<ProxiedRedis>({
    ...common,
    name: 'killed',
    title: 'Redis is killed, and restarts empty',
    messages: [...unavailable, reset],
    losesCounters: true,
    duration: 'once',
    inject: ({ server }) => server.kill('SIGKILL'),
    remove: ({ server }) => server.restart(),
  }),
]

/**
 * Injects each fault for some tenths of a second, one at a time, until it is removed. The first one makes
 * calls fail; the others of a short run may all be shorter than the deadline.
 */
function randomFaults(): FaultCase {
  let running: Promise<void> | undefined
  let isActive = false
  async function injectRandomly({ proxy }: ProxiedRedis, random: () => number): Promise<void> {
    await proxy.setFault({ kind: 'answer', line: `-${loading}` })
    await delay(200)
    while (isActive) {
      await proxy.setFault(random() < 0.3 ? undefined : randomFault(random))
      await delay(20 + 200 * random())
    }
    await proxy.setFault()
  }
  return backendFault<ProxiedRedis>({
    ...common,
    name: 'random',
    title: 'all of these connection faults at random, one at a time',
    messages: [...unavailable, reset, noReply, notRedis, new RegExp(loading)],
    duration: 'once',
    async inject(backend, { seed }) {
      isActive = true
      running = injectRandomly(backend, seededRandom(seed))
    },
    async remove() {
      isActive = false
      await running
    },
  })
}

const refuse = {
  ...common,
  inject: ({ proxy }: ProxiedRedis) => proxy.setFault({ kind: 'refuse' }),
  remove: ({ proxy }: ProxiedRedis) => proxy.setFault(),
}

/** The effects of the failure modes on the same fault, and the setting of health. */
const settingFaults: readonly FaultCase[] = [
  backendFault<ProxiedRedis>({
    ...refuse,
    name: 'mode-allow',
    title: 'connections are refused; mode allow',
    mode: 'allow',
    messages: unavailable,
    mayExceedBy: Number.POSITIVE_INFINITY,
  }),
  backendFault<ProxiedRedis>({
    ...refuse,
    name: 'mode-deny',
    title: 'connections are refused; mode deny',
    mode: 'deny',
    messages: unavailable,
  }),
  backendFault<ProxiedRedis>({
    ...refuse,
    name: 'mode-local',
    title: 'connections are refused; mode local with a share of 0.5',
    mode: 'local',
    settings: { BACKEND_FAILURE_LOCAL_SHARE: '0.5' },
    messages: unavailable,
    mayExceedBy: 0.5,
  }),
  backendFault<ProxiedRedis>({
    ...refuse,
    name: 'health-check',
    title: 'connections are refused; health follows the connection',
    settings: { KVSTORE_HEALTH_CHECK_ACTIVE_CONNECTION: 'true' },
    messages: unavailable,
    health: 500,
  }),
  backendFault<ProxiedRedis>({
    ...common,
    name: 'script-flush',
    title: 'SCRIPT FLUSH, with scripts in use',
    settings: { STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' },
    messages: [],
    duration: 'once',
    inject: ({ server }) => server.command('SCRIPT', 'FLUSH'),
    remove: async () => {},
  }),
]

export const redisFaults: readonly FaultCase[] = [
  ...connectionFaults,
  ...serverFaults,
  randomFaults(),
  ...settingFaults,
]
