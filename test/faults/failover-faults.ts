import { setTimeout as pause } from 'node:timers/promises'
import { findHashSlot } from '../../services/ratelimit/counters/redis/cluster/hash-slot.ts'
import { isArrayReply } from '../../services/ratelimit/counters/redis/resp/reply-parser.ts'
import { sendCommandOnce } from '../../services/ratelimit/counters/redis/resp/session.ts'
import type { ClusterServer } from '../support/redis-cluster.ts'
import { waitFor } from '../support/wait-for.ts'
import { backendFault } from './backend-fault.ts'
import { type ClusterBackend, openCluster, openSentinels, type SentinelBackend } from './backends.ts'
import type { FaultCase } from './fault-case.ts'
import { limitedKey, planCalls } from './load/calls.ts'

const unavailable = [
  /the connection to Redis was lost(: .+)?/,
  /connect ECONNREFUSED 127\.0\.0\.1:\d+/,
  /(?:read|write|connect) ECONNRESET.*/,
  /Redis owed replies and sent nothing for \d+ ms/,
  /too many hits in flight: \d+ and \d+ more; the limit is \d+/,
  /LOADING .+/,
  /not connected to Redis yet/,
]
const replaced = [
  /READONLY You can't write against a read only replica\./,
  /the server is a replica and not the master/,
  /Redis is at another address now/,
  /NOREPLICAS .+/,
  /UNBLOCKED .+/,
]
const partial = [/CLUSTERDOWN .+/, /MASTERDOWN .+/, /TRYAGAIN .+/]

/** The message may start with the address of a cluster node. */
const withNodeAddress = ({ source }: RegExp) => new RegExp(`(?:127\\.0\\.0\\.1:\\d+: )?(?:${source})`)

/** How long the keys of a slot are in migration, twice for each move. */
const migrationMs = 50

const failover = {
  needs: ['redis-server'],
  losesCounters: true,
  duration: 'passes',
  recoveryGoalMs: 3_000,
} as const

async function askSentinel(port: number, ...words: string[]) {
  return sendCommandOnce({ endpoint: { host: '127.0.0.1', port }, timeoutMs: 5_000 }, 'SENTINEL', ...words)
}

/** Waits until there is another master that every sentinel reports. */
async function waitForAnotherMaster({ set, findMaster }: SentinelBackend): Promise<void> {
  await waitFor('the sentinels to report another master', async () => {
    for (const port of set.sentinelPorts) {
      const reply = await askSentinel(port, 'get-master-addr-by-name', 'mymaster')
      if (!isArrayReply(reply) || reply[1] === `${set.master.port}`) return false
    }
    return (await findMaster()) !== undefined
  })
}

function sentinelFailover(): FaultCase {
  return backendFault<SentinelBackend>({
    ...failover,
    name: 'sentinel-asked',
    title: 'sentinels: a requested failover',
    openBackend: openSentinels,
    messages: [...unavailable, ...replaced],
    mayPassUnnoticed: true,
    async inject({ set }) {
      const [port = 0] = set.sentinelPorts
      await askSentinel(port, 'FAILOVER', 'mymaster')
    },
    remove: waitForAnotherMaster,
  })
}

function sentinelKill(): FaultCase {
  return backendFault<SentinelBackend>({
    ...failover,
    name: 'sentinel-killed',
    title: 'sentinels: the master is killed',
    openBackend: openSentinels,
    // The setting only gives the case a separate setup.
    settings: { KVSTORE_POOL_SIZE: '1' },
    messages: [...unavailable, ...replaced],
    inject: ({ set }) => set.master.kill('SIGKILL'),
    remove: waitForAnotherMaster,
  })
}

/** Returns the master of the limit's slot. */
async function findOwner({ cluster }: ClusterBackend, slot: number): Promise<ClusterServer> {
  for (const master of cluster.masters) {
    const keys = await master.command('CLUSTER', 'COUNTKEYSINSLOT', `${slot}`)
    if (Number(keys) > 0) return master
  }
  throw new Error(`no master has a key in slot ${slot}`)
}

/** Moves the slot from master to master; each time its keys are in migration for a while. */
function reshard(): FaultCase {
  const name = 'cluster-reshard'
  let isActive = false
  let running: Promise<void> | undefined
  async function move(backend: ClusterBackend): Promise<void> {
    const { masters } = backend.cluster
    const slot = findHashSlot(limitedKey(planCalls(name)))
    let from = await findOwner(backend, slot)
    while (isActive) {
      const to = masters[(masters.indexOf(from) + 1) % masters.length] ?? from
      await backend.cluster.moveSlot(slot, from, to, () => pause(migrationMs))
      from = to
    }
  }
  return backendFault<ClusterBackend>({
    needs: ['redis-server'],
    name,
    title: 'cluster: the slot of the limit moves from master to master',
    openBackend: openCluster,
    messages: [],
    duration: 'once',
    async inject(backend) {
      isActive = true
      running = move(backend)
    },
    async remove() {
      isActive = false
      await running
    },
  })
}

function clusterKill(): FaultCase {
  const name = 'cluster-killed'
  let killed: ClusterServer | undefined
  return backendFault<ClusterBackend>({
    ...failover,
    name,
    title: 'cluster: the master of the limit is killed',
    openBackend: openCluster,
    messages: [...unavailable, ...replaced, ...partial].map(withNodeAddress),
    async inject(backend) {
      killed = await findOwner(backend, findHashSlot(limitedKey(planCalls(name))))
      await killed.kill('SIGKILL')
    },
    async remove({ cluster }) {
      const replica = cluster.replicas[killed === undefined ? -1 : cluster.masters.indexOf(killed)]
      await waitFor('its replica to be master', async () =>
        (await replica?.command('ROLE'))?.startsWith('master'),
      )
    },
  })
}

export const failoverFaults: readonly FaultCase[] = [
  sentinelFailover(),
  sentinelKill(),
  reshard(),
  clusterKill(),
]
