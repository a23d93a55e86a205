import type { Stats } from '../stats/stats.ts'
import type { FromSupervisor, FromWorker } from './messages.ts'
import { createSeriesDeltas, type SeriesDelta } from './series-deltas.ts'

/** A worker's side of the channel to its supervisor. */
export type WorkerLink = ReturnType<typeof createWorkerLink>

/** The part of `process` that the link uses. */
type Channel = Pick<NodeJS.Process, 'send' | 'connected' | 'on'>

const workerLinkLimits = {
  /** The interval of reports. A worker that crashes loses at most the statistics of this time. */
  reportIntervalMs: 1_000,
  /** A message has at most this many series; after each message the event loop handles calls. */
  deltasPerMessage: 2_000,
  /** The timeout of the last report, which `stop` sends. */
  lastReportMs: 1_000,
} as const

/** @throws Error when this process was not started as a worker */
export function createWorkerLink(channel: Channel) {
  if (channel.send === undefined) throw new Error('a worker is started by its supervisor, not by hand')
  const listeners: (() => void)[] = []
  let serviceHealthy = false
  let answer = (_question: FromSupervisor & { type: 'ask' }) => {}
  channel.on('message', (message: FromSupervisor) => {
    if (message.type === 'ask') answer(message)
    else if (message.healthy !== serviceHealthy) {
      serviceHealthy = message.healthy
      for (const listener of listeners) listener()
    }
  })
  return {
    /** The health of all workers together; false before the supervisor's first report. */
    serviceHealthy: () => serviceHealthy,
    /** Adds a listener that is called after each change of `serviceHealthy`. */
    onServiceHealth: (listener: () => void) => void listeners.push(listener),
    /** Reports that this worker does not accept calls yet, and why. */
    reportWait: (reason: string) => void sendMessage(channel, { type: 'waiting', reason }),
    /**
     * Starts to report the statistics to the supervisor, and the rules on request.
     *
     * @param rules returns the active configuration, one limit per line
     */
    attach({ stats, rules }: { readonly stats: Stats; readonly rules: () => string }) {
      const reports = startReports(stats, message => sendMessage(channel, message))
      answer = async ({ id, what }) => {
        if (what === 'statistics') await reports.report()
        await sendMessage(channel, { type: 'answer', id, text: what === 'rules' ? rules() : '' })
      }
      return reports
    },
  }
}

/** Ignores a failure to send: the supervisor has ended, and this process will end too. */
function sendMessage(channel: Channel, message: FromWorker): Promise<void> {
  return new Promise(resolve => {
    if (channel.connected) channel.send?.(message, undefined, undefined, () => resolve())
    else resolve()
  })
}

/** Reports one after the other, so that messages do not queue up for a supervisor that does not read. */
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

  /** Resolves when all changes until now have been sent. */
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
