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
  /** The interval during a failure, and after a probe that contradicts the known state. */
  readonly recheckMs: number
  /** A probe without an answer after this time counts as failed. */
  readonly timeoutMs: number
  /**
   * The state changes after this many probes in a row that contradict it: one slow answer changes nothing.
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
 * Probes a backend, such as a database, at intervals: a process without calls does not notice that its
 * backend fails. A failure does not make the process unready; its calls then follow their failure modes.
 */
export class BackendWatch {
  readonly #options: BackendWatchOptions
  readonly #timing: BackendWatchTiming
  #problem = ''
  /** The number of consecutive probes whose success or failure contradicts `problem`. */
  #contradictions = 0
  #isRunning = false
  #isStopped = false
  #timer: NodeJS.Timeout

  constructor(options: BackendWatchOptions) {
    this.#options = options
    this.#timing = options.timing ?? defaultBackendWatchTiming
    this.#timer = this.#checkLater(this.#timing.intervalMs)
  }

  /** The cause of the failure, as it was reported when the failure began; empty while the backend answers. */
  get problem(): string {
    return this.#problem
  }

  /** Probes at once, unless a probe is running. May be passed as a callback. */
  readonly probeNow = (): void => void this.#check()

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  #checkLater(ms: number): NodeJS.Timeout {
    return setTimeout(this.probeNow, ms).unref()
  }

  async #check(): Promise<void> {
    if (this.#isRunning || this.#isStopped) return
    this.#isRunning = true
    clearTimeout(this.#timer)
    const { intervalMs, recheckMs, timeoutMs } = this.#timing
    this.#judge(await probeOnce(this.#options.probe, timeoutMs))
    this.#isRunning = false
    const isSettled = this.#problem === '' && this.#contradictions === 0
    if (!this.#isStopped) this.#timer = this.#checkLater(isSettled ? intervalMs : recheckMs)
  }

  #judge(found: string): void {
    if (this.#isStopped) return
    const isContradiction = (found === '') !== (this.#problem === '')
    this.#contradictions = isContradiction ? this.#contradictions + 1 : 0
    if (this.#contradictions < this.#timing.confirmations) return
    this.#contradictions = 0
    this.#problem = found
    this.#options.onChange(found)
  }
}

/** Resolves with the cause of a failure or timeout; empty when the probe succeeded. Never rejects. */
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
