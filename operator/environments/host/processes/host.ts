import type { Clock } from '@tollway/chassis/clock.ts'
import { type Infrastructure, InfrastructureError } from '../../../infrastructure/provider.ts'
import { createSerialTasks } from '../../../infrastructure/serial-tasks.ts'
import type { OwnPorts, ServiceName, Workload } from '../../../model.ts'
import type { ReplicaCommand } from './launch-child.ts'
import type { LogLine } from './lines.ts'
import { assertPortsFree, type PortRequest } from './port-probe.ts'
import type { ReplicaOptions } from './replica.ts'
import { createReplicaSet, type ReplicaSet } from './replica-set.ts'
import { lockStateDir } from './state-lock.ts'

interface HostInfrastructureOptions extends Pick<ReplicaOptions, 'forceShutdown' | 'heartbeat'> {
  readonly stateDir: string
  readonly clock: Clock
  readonly random: () => number
  /** Returns a new unique id for each start of a replica. */
  readonly newUid: () => string
  /**
   * Returns the program of a service: `{ command: process.execPath, args: ['services/ratelimit/main.ts'] }`.
   */
  readonly commandFor: (service: ServiceName) => ReplicaCommand
  /** The address on which the ports for callers listen. */
  readonly bindHost: string
  readonly log: (line: LogLine) => void
  /** Variables for every replica, such as the feed's address. Variables of the workload take precedence. */
  readonly env?: Readonly<Record<string, string>>
  /**
   * Returns the ports on the loopback address that only this replica uses. No two replicas of any service
   * have the same port.
   */
  readonly ownPortsFor: (index: number, service: ServiceName) => OwnPorts
  /** Returns how to choose another port, as the end of a sentence. */
  readonly portAdvice?: (portName: string, service: ServiceName) => string
  /** How to choose another `bindHost`, as the end of a sentence. */
  readonly hostAdvice?: string
  /** The time in which a replaced replica must become ready. After it, the log says why the rollout waits. */
  readonly rolloutTimeoutMs?: number
}

/** Runs workloads on one machine as child processes. */
export interface HostInfrastructure extends Infrastructure {
  /**
   * Rejects if a port of the workloads or of `further` cannot be used. The error names every port that is
   * requested twice; if there is none, every port that is in use.
   */
  assertPortsFree(workloads: readonly Workload[], further: readonly PortRequest[]): Promise<void>
  /** Ends every replica of every workload, and unlocks the state folder. */
  close(): Promise<void>
}

const hostLimits = { maxReplicas: 64 } as const

const loopback = '127.0.0.1'

interface Running {
  readonly set: ReplicaSet
  workload: Workload
}

/**
 * Throws an `InfrastructureError` if another operator has locked the state folder. `apply` rejects if a port
 * is in use, and then leaves running processes unchanged.
 */
export function createHostInfrastructure(options: HostInfrastructureOptions): HostInfrastructure {
  const { ownPortsFor, rolloutTimeoutMs = 30_000 } = options
  const lock = lockStateDir(options.stateDir)
  const running = new Map<string, Running>()
  const listeners: ((workload: string) => void)[] = []
  const tasks = createSerialTasks()
  let closed = false

  const open = (workload: Workload): Running => {
    const set = createReplicaSet({
      ...options,
      name: workload.name,
      command: options.commandFor(workload.service),
      rolloutTimeoutMs,
      envFor: (now, index, uid) =>
        replicaEnv(options, now, ownPortsFor(index, now.service), `${now.name}-${index}`, uid),
      addressesFor: (now, index) => formatAddresses(options.bindHost, now, ownPortsFor(index, now.service)),
      onChange: () => {
        for (const listener of listeners) listener(workload.name)
      },
    })
    const opened = { set, workload: { ...workload, replicas: 0, ports: [] } }
    running.set(workload.name, opened)
    return opened
  }

  const remove = async (name: string) => {
    const found = running.get(name)
    if (found === undefined) return
    await found.set.stop()
    running.delete(name)
    for (const listener of listeners) listener(name)
  }

  const listNewPorts = (workload: Workload) => newPorts(workload, running.get(workload.name), options)

  return {
    assertPortsFree: (workloads, further) =>
      assertPortsFree([...further, ...workloads.flatMap(listNewPorts)]),
    apply: workload =>
      tasks.run(workload.name, async () => {
        assertReplicas(workload)
        await assertPortsFree(listNewPorts(workload))
        if (closed) throw new InfrastructureError(`${workload.name} is not applied: the operator is ending`)
        const found = running.get(workload.name) ?? open(workload)
        found.workload = workload
        found.set.scaleTo(workload)
      }),
    remove: name => tasks.run(name, () => remove(name)),
    observe: name => running.get(name)?.set.observe() ?? [],
    onChange: listener => listeners.push(listener),
    async close() {
      closed = true
      await Promise.all(Array.from(running.keys(), name => tasks.run(name, () => remove(name))))
      lock.release()
    },
  }
}

/** Returns the ports that the workload needs and that none of its processes has yet. */
function newPorts(
  workload: Workload,
  before: Running | undefined,
  options: HostInfrastructureOptions,
): readonly PortRequest[] {
  const {
    bindHost,
    ownPortsFor,
    portAdvice = name => `choose another ${name} port in the configuration`,
    hostAdvice = 'choose another address in the configuration',
  } = options
  const held = new Set(before?.workload.ports.map(({ port }) => port))
  const shared = workload.ports
    .filter(({ port }) => workload.replicas > 0 && !held.has(port))
    .map(({ name, port }) => ({ name, port, host: bindHost, of: workload.name, hostAdvice }))
  const own = Array.from({ length: workload.replicas }, (_, index) => index)
    .filter(index => !before?.set.holds(index))
    .flatMap(index => {
      const ports = Object.entries(ownPortsFor(index, workload.service))
      return ports.map(([name, port]) => ({ name, port, host: loopback, of: `${workload.name}-${index}` }))
    })
  return [...shared, ...own].map(({ name, of, ...where }) => {
    return { ...where, wantedBy: `${name} of ${of}`, advice: portAdvice(name, workload.service) }
  })
}

function assertReplicas({ name, replicas }: Workload): void {
  if (Number.isInteger(replicas) && replicas >= 0 && replicas <= hostLimits.maxReplicas) return
  throw new InfrastructureError(
    `${name}: replicas: ${replicas} is not a whole number from 0 to ${hostLimits.maxReplicas}`,
  )
}

function replicaEnv(
  options: HostInfrastructureOptions,
  workload: Workload,
  own: OwnPorts,
  name: string,
  uid: string,
) {
  const { PATH = '', HOME = '' } = process.env
  return {
    PATH,
    HOME,
    GRPC_HOST: options.bindHost,
    HOST: options.bindHost,
    ...options.env,
    ...options.commandFor(workload.service).env,
    ...workload.env,
    REUSE_PORT: 'true',
    DEBUG_HOST: loopback,
    DEBUG_PORT: String(own.debug),
    ...(own.metrics !== undefined && { PULLSTATS_ADDR: `${loopback}:${own.metrics}` }),
    CONFIG_GRPC_XDS_NODE_ID: name,
    CONFIG_GRPC_XDS_NODE_METADATA: `pod:${name},uid:${uid},namespace:local`,
  }
}

function formatAddresses(
  bindHost: string,
  workload: Workload,
  own: OwnPorts,
): Readonly<Record<string, string>> {
  const shared = workload.ports.map(({ name, port }) => [
    name,
    `${name === 'http' ? 'http://' : ''}${bindHost}:${port}`,
  ])
  return {
    debug: `http://${loopback}:${own.debug}`,
    ...(own.metrics !== undefined && { metrics: `http://${loopback}:${own.metrics}/metrics` }),
    ...Object.fromEntries(shared),
  }
}
