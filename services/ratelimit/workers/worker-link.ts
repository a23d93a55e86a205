import type { Stats } from '../stats/stats.ts'
import type { FromSupervisor, FromWorker } from './messages.ts'
import { createSeriesDeltas, type SeriesDelta } from './series-deltas.ts'

/** A worker's side of the channel to its supervisor. */
export interface WorkerLink {
  /** Whether all workers together are healthy, as the supervisor says; not before it says so. */
  wholeHealthy(): boolean
  /** Called after each change of that. */
  onWholeHealth(listener: () => void): void
  /** Reports that this worker takes no call yet, and why. */
  reportWait(reason: string): void
  /** From now on the supervisor is told of the statistics, and of the rules when it asks. */
  attach(shown: Shown): { stop(): Promise<void> }
}

export interface Shown {
  readonly stats: Stats
  /** The configuration in force, one limit a line. */
  readonly rules: () => string
}

/** What of a process the link uses. */
export type Channel = Pick<NodeJS.Process, 'send' | 'connected' | 'on'>

export const workerLinkLimits = {
  /** A worker that dies takes with it at most the statistics of so long. */
  reportIntervalMs: 1_000,
  /** So many series go in one message; then calls have the event loop. */
  deltasPerMessage: 2_000,
  /** For the last report, whatever the supervisor does. */
  lastReportMs: 1_000,
} as const

/** @throws Error when nobody started this process as a worker. */
export function createWorkerLink(channel: Channel): WorkerLink {
  if (channel.send === undefined) throw new Error('a worker is started by its supervisor, not by hand')
  const listeners: (() => void)[] = []
  let whole = false
  let answer = (_question: FromSupervisor & { type: 'ask' }) => {}
  channel.on('message', (message: FromSupervisor) => {
    if (message.type === 'ask') answer(message)
    else if (message.healthy !== whole) {
      whole = message.healthy
      for (const listener of listeners) listener()
    }
  })
  return {
    wholeHealthy: () => whole,
    onWholeHealth: listener => void listeners.push(listener),
    reportWait: reason => void tell(channel, { type: 'waiting', reason }),
    attach({ stats, rules }) {
      const reports = startReports(stats, message => tell(channel, message))
      answer = async ({ id, what }) => {
        if (what === 'statistics') await reports.report()
        await tell(channel, { type: 'answer', id, text: what === 'rules' ? rules() : '' })
      }
      return reports
    },
  }
}

/**
 * Resolves when the message is on its way. That it could not be sent is no error: then the supervisor is gone,
 * and this process about to end.
 */
function tell(channel: Channel, message: FromWorker): Promise<void> {
  return new Promise(resolve => {
    if (channel.connected) channel.send?.(message, undefined, undefined, () => resolve())
    else resolve()
  })
}

/** One report runs at a time, so that nothing piles up before a supervisor that does not read. */
function startReports(stats: Stats, send: (message: FromWorker) => Promise<void>) {
  const { reportIntervalMs, deltasPerMessage, lastReportMs } = workerLinkLimits
  const pass = createSeriesDeltas(stats)
  let running = 0
  let last = Promise.resolve()

  async function sendAll(): Promise<void> {
    let deltas: SeriesDelta[] = []
    for (const delta of pass()) {
      deltas.push(delta)
      if (deltas.length < deltasPerMessage) continue
      await send({ type: 'statistics', deltas })
      deltas = []
    }
    if (deltas.length > 0) await send({ type: 'statistics', deltas })
  }

  /** What changed until now is told when it resolves. */
  function report(): Promise<void> {
    running += 1
    last = last.then(sendAll).finally(() => {
      running -= 1
    })
    return last
  }

  const timer = setInterval(() => {
    if (running === 0) report()
  }, reportIntervalMs)
  timer.unref()
  return {
    report,
    async stop() {
      clearInterval(timer)
      let deadline: NodeJS.Timeout | undefined
      const late = new Promise<void>(resolve => {
        deadline = setTimeout(resolve, lastReportMs)
      })
      await Promise.race([report(), late])
      clearTimeout(deadline)
    },
  }
}
