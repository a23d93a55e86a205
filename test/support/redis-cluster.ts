import type { Certificate } from './certificate.ts'
import { freePorts } from './free-ports.ts'
import { type RedisServer, startRedis } from './redis-server.ts'
import { waitFor } from './wait-for.ts'

/** A Redis Cluster of three masters with replicas. */
export interface RedisCluster {
  /** The initial masters, each with a third of the slots, in order. */
  readonly masters: readonly ClusterServer[]
  /** The initial replicas. */
  readonly replicas: readonly ClusterServer[]
  /** `host:port,…` of all of them. */
  readonly url: string
  /** Starts one more master without slots. */
  addMaster(): Promise<ClusterServer>
  /** Shortens the node timeout, so that a dead node is replaced after a second or two. */
  failQuickly(): Promise<void>
  /** Runs a command on each of the initial masters, and returns their outputs. */
  onMasters(...command: string[]): Promise<string[]>
  /** Moves the slot and its keys to another master; calls back while the keys are in migration. */
  moveSlot(slot: number, from: ClusterServer, to: ClusterServer, during?: () => Promise<void>): Promise<void>
  stop(): Promise<void>
}

export interface ClusterServer extends RedisServer {
  readonly id: string
  readonly busPort: number
  /** The port for other nodes and clients: that of TLS if there is a certificate. */
  readonly nodePort: number
}

export interface RedisClusterOptions {
  readonly replicasPerMaster?: number
  /** TLS between the nodes and, on their `nodePort`, for clients, which need the certificate too. */
  readonly certificate?: Certificate
}

/** Long enough for a busy machine: the silence after which a node is considered failed. */
const nodeTimeoutMs = 5_000
const quickNodeTimeoutMs = 500
const masterCount = 3
const slotCount = 16_384

export async function startRedisCluster(options: RedisClusterOptions = {}): Promise<RedisCluster> {
  const { replicasPerMaster = 0 } = options
  const count = masterCount * (1 + replicasPerMaster)
  const servers = await Promise.all(Array.from({ length: count }, () => startMember(options)))
  const masters = servers.slice(0, masterCount)
  const replicas = servers.slice(masterCount)
  const cluster: RedisCluster = {
    masters,
    replicas,
    url: servers.map(({ nodePort }) => `127.0.0.1:${nodePort}`).join(','),
    async addMaster() {
      const server = await startMember(options)
      servers.push(server)
      await introduce(servers)
      await becomeWhole(servers)
      return server
    },
    async failQuickly() {
      const setting = ['cluster-node-timeout', `${quickNodeTimeoutMs}`]
      await Promise.all(servers.map(server => server.command('CONFIG', 'SET', ...setting)))
    },
    onMasters: (...command) => Promise.all(masters.map(master => master.command(...command))),
    async moveSlot(slot, from, to, during) {
      await to.command('CLUSTER', 'SETSLOT', `${slot}`, 'IMPORTING', from.id)
      await from.command('CLUSTER', 'SETSLOT', `${slot}`, 'MIGRATING', to.id)
      await during?.()
      await moveKeys(slot, from, to)
      await during?.()
      await to.command('CLUSTER', 'SETSLOT', `${slot}`, 'NODE', to.id)
      await from.command('CLUSTER', 'SETSLOT', `${slot}`, 'NODE', to.id)
    },
    async stop() {
      await Promise.all(servers.map(server => server.stop()))
    },
  }
  try {
    await assignSlots(masters)
    await introduce(servers)
    await Promise.all(replicas.map((replica, index) => replicate(replica, masters[index % masterCount])))
    await becomeWhole(servers)
  } catch (error) {
    await cluster.stop()
    throw error
  }
  return cluster
}

async function startMember(options: RedisClusterOptions): Promise<ClusterServer> {
  const { certificate } = options
  const [busPort = 0, securePort = 0] = await freePorts(2)
  const server = await startRedis([
    ...['--cluster-enabled', 'yes', '--cluster-port', `${busPort}`],
    ...['--cluster-node-timeout', `${nodeTimeoutMs}`, '--cluster-replica-validity-factor', '0'],
    // A master without slots stays a master.
    ...['--cluster-allow-replica-migration', 'no', '--repl-diskless-sync-delay', '0'],
    ...(certificate === undefined ? [] : secureArguments(securePort, certificate)),
  ])
  return {
    ...server,
    get pid() {
      return server.pid
    },
    id: await server.command('CLUSTER', 'MYID'),
    busPort,
    nodePort: certificate === undefined ? server.port : securePort,
  }
}

function secureArguments(port: number, { certFile, keyFile }: Certificate): readonly string[] {
  return [
    ...['--tls-port', `${port}`, '--tls-cluster', 'yes', '--tls-replication', 'yes'],
    ...['--tls-cert-file', certFile, '--tls-key-file', keyFile, '--tls-ca-cert-file', certFile],
  ]
}

/** Assigns a third of the slots to each, and different epochs, which the cluster then need not resolve. */
async function assignSlots(masters: readonly ClusterServer[]): Promise<void> {
  const bounds = [0, 5461, 10_923, slotCount]
  await Promise.all(
    masters.map(async (master, index) => {
      const [first, next] = [bounds[index] ?? 0, bounds[index + 1] ?? 0]
      await master.command('CLUSTER', 'SET-CONFIG-EPOCH', `${index + 1}`)
      await master.command('CLUSTER', 'ADDSLOTSRANGE', `${first}`, `${next - 1}`)
    }),
  )
}

/** Introduces each node to every other: gossip would take seconds. */
async function introduce(servers: readonly ClusterServer[]): Promise<void> {
  await Promise.all(
    servers.flatMap((server, index) =>
      servers
        .slice(0, index)
        .map(({ nodePort, busPort }) =>
          server.command('CLUSTER', 'MEET', '127.0.0.1', `${nodePort}`, `${busPort}`),
        ),
    ),
  )
  await waitFor('the nodes to know each other', async () => {
    const tables = await Promise.all(servers.map(server => server.command('CLUSTER', 'NODES')))
    return tables.every(
      table => table.trim().split('\n').length === servers.length && !table.includes('handshake'),
    )
  })
}

async function becomeWhole(servers: readonly ClusterServer[]): Promise<void> {
  await waitFor('the cluster to be whole', async () => {
    const infos = await Promise.all(servers.map(server => server.command('CLUSTER', 'INFO')))
    return infos.every(info => info.includes('cluster_state:ok'))
  })
}

async function replicate(replica: ClusterServer, master: ClusterServer | undefined): Promise<void> {
  await replica.command('CLUSTER', 'REPLICATE', master?.id ?? '')
  await waitFor('a replica to follow', async () =>
    (await replica.command('INFO', 'replication')).includes('master_link_status:up'),
  )
}

async function moveKeys(slot: number, from: ClusterServer, to: ClusterServer): Promise<void> {
  for (;;) {
    const keys = await from.command('CLUSTER', 'GETKEYSINSLOT', `${slot}`, '100')
    if (keys === '') return
    await from.command('MIGRATE', '127.0.0.1', `${to.port}`, '', '0', '5000', 'KEYS', ...keys.split('\n'))
  }
}
