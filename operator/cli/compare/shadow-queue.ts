interface WaitingCall {
  readonly bytes: number
  /** Never rejects. */
  run(): Promise<void>
  /** Called instead of `run` if the queue closes first. */
  drop(): void
}

interface ShadowLimits {
  readonly maxRunning: number
  readonly maxWaiting: number
  readonly maxWaitingBytes: number
}

const shadowLimits: ShadowLimits = {
  maxRunning: 64,
  maxWaiting: 1_000,
  maxWaitingBytes: 16 * 1024 * 1024,
}

export class ShadowQueue {
  readonly #limits: ShadowLimits
  #waiting: WaitingCall[] = []
  #waitingBytes = 0
  #running = 0
  #idle: PromiseWithResolvers<void> | undefined

  constructor(limits: ShadowLimits = shadowLimits) {
    this.#limits = limits
  }

  /** Starts the call in a later turn of the event loop. Returns false if too many calls or bytes wait. */
  add(call: WaitingCall): boolean {
    const { maxWaiting, maxWaitingBytes } = this.#limits
    if (this.#waiting.length >= maxWaiting || this.#waitingBytes + call.bytes > maxWaitingBytes) return false
    this.#waiting.push(call)
    this.#waitingBytes += call.bytes
    if (this.#running < this.#limits.maxRunning) setImmediate(() => this.#runNext())
    return true
  }

  /** Resolves when no call runs or waits. Calls that still wait after `graceMs` are dropped. */
  async close(graceMs: number): Promise<void> {
    if (this.#running === 0 && this.#waiting.length === 0) return
    this.#idle = Promise.withResolvers()
    const timer = setTimeout(() => this.#dropWaiting(), graceMs)
    await this.#idle.promise
    clearTimeout(timer)
  }

  #dropWaiting(): void {
    for (const call of this.#waiting) call.drop()
    this.#waiting = []
    this.#waitingBytes = 0
    this.#resolveIfIdle()
  }

  #resolveIfIdle(): void {
    if (this.#running === 0 && this.#waiting.length === 0) this.#idle?.resolve()
  }

  #runNext(): void {
    if (this.#running >= this.#limits.maxRunning) return
    const call = this.#waiting.shift()
    if (call === undefined) return
    this.#waitingBytes -= call.bytes
    this.#running += 1
    call.run().then(() => {
      this.#running -= 1
      this.#runNext()
      this.#resolveIfIdle()
    })
  }
}
