import type { ChildProcess } from 'node:child_process'
import { systemClock } from '@tollway/chassis/clock.ts'
import { reportBackend, reportHealth } from '@tollway/chassis/lifecycle.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { assertAddressesFree } from '@tollway/grpc/server/assert-addresses-free.ts'
import { portsBesidesGrpc } from '../servers/ports-besides-grpc.ts'
import type { Settings } from '../settings.ts'
import { createStats } from '../stats/stats.ts'
import { MergedStats } from './merged-stats.ts'
import type { Question } from './messages.ts'
import { openStatsEndpoints } from './stats-endpoints.ts'
import { Worker, type WorkerState } from './worker.ts'
import type { Ending } from './worker-channel.ts'

/** A worker that runs this long after its drain is killed. */
const endGraceMs = 10_000

/**
 * Starts WORKERS processes on the shared ports, and what they share: their health, their statistics and the
 * debug server. Rejects when a port is in use, before any process is started.
 *
 * @param fork starts the process of the worker with this index, from 0
 */
export async function startSupervisor(
  settings: Settings,
  log: Log,
  fork: (index: number) => ChildProcess,
): Promise<{ readonly started: Promise<void>; stop(): Promise<void> }> {
  const { workers: count, grpcPort, port } = settings
  await assertAddressesFree(settings, portsBesidesGrpc(settings))
  const stats = createStats()
  const merged = new MergedStats(stats)
  const shown = { rules: '' }
  const rules = () => shown.rules
  const statsEndpoints = await openStatsEndpoints(settings, {
    stats,
    rules,
    problem,
    acceptProblem: () => (closed ? 'is ending' : serviceState.reason),
    backendProblem,
    log,
    refresh,
  })
  const started = Promise.withResolvers<void>()
  const workers: Worker[] = []
  let serviceState: ServiceState = initialState
  let reportedBackendProblem = ''
  let stopping = false
  /** Whether all workers have closed their ports for calls. */
  let closed = false

  async function refresh(what: Question): Promise<void> {
    if (what === 'statistics') await Promise.all(workers.map(worker => worker.ask(what)))
    else shown.rules = await firstText(workers)
  }

  function problem(): string {
    return stopping ? 'is ending' : serviceState.reason
  }

  /** Returns the problem of the first worker whose backend fails; empty if there is none. */
  function backendProblem(): string {
    return workers.find(worker => worker.backendProblem !== '')?.backendProblem ?? ''
  }

  function update(): void {
    if (backendProblem() !== reportedBackendProblem) {
      reportedBackendProblem = backendProblem()
      reportBackend(reportedBackendProblem)
    }
    // The health is computed from all workers, so it does not change while they are being started or stopped.
    if (workers.length < count || stopping) return
    const before = serviceState
    serviceState = combineStates(
      before,
      workers.map(({ state }) => state),
    )
    if (serviceState.healthy !== before.healthy)
      for (const worker of workers) worker.sendServiceHealth(serviceState.healthy)
    reportHealth(serviceState.healthy, serviceState.reason)
    if (serviceState.started && !before.started) {
      log.info('start service', { workers: count, grpc: grpcPort, http: port })
      started.resolve()
    }
  }

  async function endAll(graceMs: number): Promise<void> {
    stopping = true
    await Promise.all(workers.map(worker => worker.stop(graceMs)))
    await statsEndpoints.stop()
  }

  function onEnd(worker: number, { how, byItself }: Ending, waitMs: number): void {
    if (stopping) return
    if (serviceState.started || !byItself) {
      log.warn('restart worker', { worker, reason: how, waitMs: Math.round(waitMs) })
      return
    }
    endAll(0).then(() => started.reject(new Error(`worker ${worker} ${how}`)))
  }

  for (let index = 0; index < count; index += 1) {
    const worker = new Worker({
      fork: () => fork(index),
      stats: merged,
      clock: systemClock,
      random: Math.random,
      onChange: update,
      onSilent: ms => log.warn('kill worker', { worker: index, reason: `no message for ${ms} ms` }),
      onEnd: (ending, waitMs) => onEnd(index, ending, waitMs),
    })
    workers.push(worker)
  }
  return {
    /**
     * Resolves when every worker accepts calls. If a worker exits before that, all workers are ended and it
     * rejects, since a restart would fail again. The process must then exit.
     */
    started: started.promise,
    /** Stops every worker as `Service.stop` does, and then the servers that the workers share. */
    stop() {
      reportHealth(false, 'is ending')
      setTimeout(() => {
        closed = true
      }, settings.drainDelayMs)
      return endAll(settings.drainDelayMs + settings.drainTimeoutMs + endGraceMs)
    },
  }
}

/** Returns the rules from the first worker that has rules; empty if none has. */
async function firstText(workers: readonly Worker[]): Promise<string> {
  for (const worker of workers) {
    const text = await worker.ask('rules')
    if (text !== '') return text
  }
  return ''
}

/** The state of all workers as one service. */
interface ServiceState {
  /** Whether every worker has accepted calls at least once. */
  readonly started: boolean
  readonly healthy: boolean
  /** Why the service is not healthy, in a few words; empty when it is. */
  readonly reason: string
}

export const initialState: ServiceState = { started: false, healthy: false, reason: 'starting' }

/**
 * Computes the health of the service. It becomes healthy when every worker is. From then on, it is healthy
 * while there is a worker that accepts calls and all such workers are healthy. An absent worker does not
 * matter: the system gives its new connections to the others. A worker that accepts calls and cannot answer
 * makes the service unhealthy, since callers cannot choose another worker.
 */
export function combineStates(before: ServiceState, workers: readonly WorkerState[]): ServiceState {
  const started = before.started || workers.every(({ is }) => is !== 'absent')
  const mayBeAbsent = before.started && workers.some(({ is }) => is !== 'absent')
  const ill = workers.findIndex(({ is }) => is === 'unhealthy' || (is === 'absent' && !mayBeAbsent))
  if (ill === -1) return { started, healthy: true, reason: '' }
  return { started, healthy: false, reason: `worker ${ill}: ${workers[ill]?.reason}` }
}
