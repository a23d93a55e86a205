/** Watches a backend, such as a database, after the process became ready. */
export interface BackendWatch {
  /**
   * The cause of the failure, set at its start and kept until the backend answers again; empty while it
   * answers.
   */
  readonly problem: string
  /** Probes at once instead of at the next interval, unless a probe is running. */
  probeNow(): void
  stop(): void
}

interface BackendWatchOptions {
  /** Makes one call to the backend. Rejects when the call fails. */
  readonly probe: () => Promise<unknown>
  /** Called with `problem` after each change. */
  readonly onChange: (problem: string) => void
  readonly timing?: BackendWatchTiming
}

interface BackendWatchTiming {
  /** The interval while the backend answers and the last probe succeeded. */
  readonly intervalMs: number
  /** The shorter interval during a failure, and after a probe that contradicts the known state. */
  readonly recheckMs: number
  /** A probe without an answer after this time counts as failed. */
  readonly timeoutMs: number
  /**
   * The number of consecutive contradicting probes that change the state. With several, one slow answer
   * changes nothing.
   */
  readonly confirmations: number
}

const defaultBackendWatchTiming: BackendWatchTiming = {
  intervalMs: 5_000,
  recheckMs: 1_000,
  timeoutMs: 2_000,
  confirmations: 3,
}

/**
 * Probes a backend at intervals, because a process without calls does not notice that its backend fails. A
 * failure does not make the process unready: its calls then follow their failure modes. Only one probe runs
 * at a time.
 */
export function watchBackend(options: BackendWatchOptions): BackendWatch {
  const { probe, onChange, timing = defaultBackendWatchTiming } = options
  let problem = ''
  /** The number of consecutive probes whose success or failure contradicts `problem`. */
  let contradictions = 0
  let running = false
  let stopped = false
  let timer: NodeJS.Timeout | undefined

  async function check(): Promise<void> {
    if (running || stopped) return
    running = true
    clearTimeout(timer)
    judge(await probeOnce(probe, timing.timeoutMs))
    running = false
    const isSettled = problem === '' && contradictions === 0
    if (!stopped) timer = setTimeout(check, isSettled ? timing.intervalMs : timing.recheckMs).unref()
  }

  function judge(found: string): void {
    if (stopped) return
    const isContradiction = (found === '') !== (problem === '')
    contradictions = isContradiction ? contradictions + 1 : 0
    if (contradictions < timing.confirmations) return
    contradictions = 0
    problem = found
    onChange(problem)
  }

  timer = setTimeout(check, timing.intervalMs).unref()
  return {
    get problem() {
      return problem
    },
    probeNow: () => void check(),
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}

/**
 * Resolves with the cause of the failure, including a timeout; empty when the probe succeeded. Never rejects.
 */
async function probeOnce(probe: BackendWatchOptions['probe'], timeoutMs: number): Promise<string> {
  const late = Promise.withResolvers<string>()
  const timer = setTimeout(late.resolve, timeoutMs, `no answer within ${timeoutMs / 1000} s`).unref()
  const answered = probe().then(
    () => '',
    (error: unknown) => (error as Error).message || 'the call failed',
  )
  const found = await Promise.race([answered, late.promise])
  clearTimeout(timer)
  return found
}
