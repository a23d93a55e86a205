import type { ChildProcess } from 'node:child_process'
import { systemClock } from '@tollway/chassis/clock.ts'
import { reportHealth } from '@tollway/chassis/lifecycle.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { assertAddressesFree } from '@tollway/grpc/assert-addresses-free.ts'
import { portsBesidesGrpc } from '../servers/ports-besides-grpc.ts'
import type { Settings } from '../settings.ts'
import { createStats } from '../stats/stats.ts'
import { keepWorker, type Worker } from './keep-worker.ts'
import { createMergedStats } from './merged-stats.ts'
import type { Question } from './messages.ts'
import { openOutlets } from './outlets.ts'
import { judgeWhole, newWhole, type Whole } from './whole-health.ts'
import type { Ending } from './worker-channel.ts'

/** Several workers that are one service. */
export interface Supervisor {
  /**
   * Resolves when every worker takes calls. Rejects, after all were ended, when one ended by itself before that:
   * what it could not do, it could not do again. The process must end then.
   */
  readonly started: Promise<void>
  /** Ends every worker as `Service.stop` does, and then what all have in common. */
  stop(): Promise<void>
}

/** A worker that does not end this long after its drain is over is killed. */
const endGraceMs = 10_000

/**
 * Starts WORKERS processes on the shared ports, and all that there is once for them: their health, their
 * statistics and the debug server. Rejects when a port cannot be had, before anything is started.
 *
 * @param fork starts the process of the worker with this number, from 0
 */
export async function startSupervisor(
  settings: Settings,
  log: Log,
  fork: (index: number) => ChildProcess,
): Promise<Supervisor> {
  const { workers: count, grpcPort, port } = settings
  await assertAddressesFree(settings, portsBesidesGrpc(settings))
  const stats = createStats()
  const merged = createMergedStats(stats)
  const shown = { rules: '' }
  const rules = () => shown.rules
  const outlets = await openOutlets(settings, { stats, rules, problem, log, refresh })
  const started = Promise.withResolvers<void>()
  const workers: Worker[] = []
  let whole: Whole = newWhole
  let stopping = false

  async function refresh(what: Question): Promise<void> {
    if (what === 'statistics') await Promise.all(workers.map(worker => worker.ask(what)))
    else shown.rules = await firstText(workers)
  }

  function problem(): string {
    return stopping ? 'is ending' : whole.reason
  }

  function judge(): void {
    // The verdict needs all workers: none is given while they are started and while they end.
    if (workers.length < count || stopping) return
    const before = whole
    whole = judgeWhole(
      before,
      workers.map(({ state }) => state),
    )
    if (whole.healthy !== before.healthy) for (const worker of workers) worker.tellWhole(whole.healthy)
    reportHealth(whole.healthy, whole.reason)
    if (whole.started && !before.started) {
      log.info('serving', { workers: count, grpc: grpcPort, http: port })
      started.resolve()
    }
  }

  async function endAll(graceMs: number): Promise<void> {
    stopping = true
    await Promise.all(workers.map(worker => worker.stop(graceMs)))
    await outlets.stop()
  }

  function onEnd(worker: number, { how, byItself }: Ending, waitMs: number): void {
    if (stopping) return
    if (whole.started || !byItself) {
      log.warn('a worker ended and is started again', { worker, how, waitMs: Math.round(waitMs) })
      return
    }
    endAll(0).then(() => started.reject(new Error(`worker ${worker} ${how}`)))
  }

  for (let index = 0; index < count; index += 1) {
    const worker = keepWorker({
      fork: () => fork(index),
      stats: merged,
      clock: systemClock,
      random: Math.random,
      onChange: judge,
      onSilent: ms => log.warn('a worker shows no sign of life and is killed', { worker: index, ms }),
      onEnd: (ending, waitMs) => onEnd(index, ending, waitMs),
    })
    workers.push(worker)
  }
  return {
    started: started.promise,
    stop() {
      reportHealth(false, 'is ending')
      return endAll(settings.drainDelayMs + settings.drainTimeoutMs + endGraceMs)
    },
  }
}

/** What the first worker shows that has anything to show. */
async function firstText(workers: readonly Worker[]): Promise<string> {
  for (const worker of workers) {
    const text = await worker.ask('rules')
    if (text !== '') return text
  }
  return ''
}
